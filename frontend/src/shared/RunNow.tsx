import { Button, type ButtonProps } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useTranslation } from "@/i18n/useTranslation";
import { api, must } from "@/api/client";
import { ProblemText } from "@/ui/page/ProblemText";

/** Keys of queries about background jobs begin with `jobs`. */
export const jobsKey = ["jobs"] as const;

/** Runs a background job now. */
export function RunNow({ name, ...props }: { name: string } & Pick<ButtonProps, "size" | "disabled">) {
  const { t } = useTranslation();
  const client = useQueryClient();
  const run = useMutation({
    mutationFn: () => must(api.POST("/api/v1/jobs/{name}/run/", { params: { path: { name } }, body: {} })),
    onSuccess: () => notifications.show({ message: t("run_now.started", { name }), color: "teal" }),
    onError: (error) => notifications.show({ message: <ProblemText error={error} />, color: "red", autoClose: 10_000 }),
    onSettled: () => client.invalidateQueries({ queryKey: jobsKey }),
  });
  return (
    <Button
      variant="default"
      {...props}
      loading={run.isPending}
      onClick={() => run.mutate()}
      aria-label={t("run_now.label", { name })}
    >
      {t("run_now.action")}
    </Button>
  );
}
