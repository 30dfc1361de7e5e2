import { Button, Stack, Text } from "@mantine/core";
import { useMutation } from "@tanstack/react-query";
import { useTranslation } from "@/i18n/useTranslation";
import { signOut } from "@/api/session";
import { ProblemAlert } from "@/ui/page/ProblemAlert";

/** This browser is signed in already: the user chooses whether to continue under that account. */
export function AlreadyIn({ onGoOn, onOther }: { onGoOn: () => void; onOther: () => void }) {
  const { t } = useTranslation("sign_in");
  const leave = useMutation({ mutationFn: signOut, onSuccess: onOther });
  return (
    <Stack>
      <Text>{t("already.text")}</Text>
      {leave.isError && <ProblemAlert error={leave.error} />}
      <Button onClick={onGoOn}>{t("already.go_on")}</Button>
      <Button variant="default" loading={leave.isPending} onClick={() => leave.mutate()}>
        {t("already.other")}
      </Button>
    </Stack>
  );
}
