import { Button, Divider } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useTranslation } from "@/i18n/useTranslation";
import { providerAddress } from "@/api/session";
import type { Provider } from "@/features/sign_in/queries";
import { ProblemAlert } from "@/ui/page/ProblemAlert";

/**
 * By way of the identity provider, which sends the browser back to this page: a second factor may be asked for here.
 */
export function SingleSignOn({ provider, next }: { provider: Provider; next: string }) {
  const { t } = useTranslation("sign_in");
  const comeBackTo = `/sign-in?${new URLSearchParams({ back: "sso", next }).toString()}`;
  const leave = useMutation({
    mutationFn: () => providerAddress(provider.id, "login", comeBackTo),
    onSuccess: (address) => window.location.assign(address),
  });
  return (
    <>
      <Divider label={t("sso.or")} />
      {leave.isError && <ProblemAlert error={leave.error} />}
      <Button
        variant="default"
        loading={leave.isPending || leave.isSuccess}
        onClick={() => leave.mutate()}
        data-action="sso"
      >
        {t("sso.with", { name: provider.name })}
      </Button>
    </>
  );
}
