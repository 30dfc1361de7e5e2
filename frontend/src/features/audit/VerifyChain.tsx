import { Alert, Button, Stack, Text } from "@mantine/core";
import { IconShieldCheck } from "@tabler/icons-react";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { count } from "@/format/numbers";
import { verifyStretch } from "@/features/audit/queries";
import { useLanguage } from "@/ui/preferences";
import { ProblemAlert } from "@/ui/page/ProblemAlert";
import { useSteps } from "@/ui/dialog/useSteps";
import { Dialog, DialogFooter } from "@/ui/dialog/Dialog";
import { Sent } from "@/ui/Sent";

/** Follows the chain of digests from the first entry to the newest, stretch by stretch, and says where it breaks. */
export function VerifyChain() {
  const { t } = useTranslation("audit");
  const language = useLanguage();
  const [isOpen, setOpen] = useState(false);
  const { found, done, state, error, start, cancel, resume, reset } = useSteps(verifyStretch);
  const [broken] = found;
  const checked = count(done, language);
  const close = () => {
    setOpen(false);
    reset();
  };
  return (
    <>
      <Button
        variant="default"
        leftSection={<IconShieldCheck size={16} aria-hidden />}
        onClick={() => {
          setOpen(true);
          start();
        }}
      >
        {t("verify.start")}
      </Button>
      <Dialog opened={isOpen} onClose={close} title={t("verify.title")}>
        <Stack aria-live="polite" data-verify={broken ? "broken" : state}>
          {state === "running" && <Text>{t("verify.running", { checked })}</Text>}
          {state === "cancelled" && <Text>{t("verify.cancelled", { checked })}</Text>}
          {state === "failed" && <ProblemAlert error={error} onRetry={resume} />}
          {state === "finished" && !broken && (
            <Alert color="teal" title={t("verify.whole")}>
              {t("verify.whole_text", { checked })}
            </Alert>
          )}
          {broken && (
            <Alert color="red" title={t("verify.broken", { id: broken.broken_id ?? broken.last_id })}>
              <Sent text={broken.problem} />
            </Alert>
          )}
          <DialogFooter>
            {state === "running" && (
              <Button variant="default" onClick={cancel}>
                {t("verify.cancel")}
              </Button>
            )}
            {state === "cancelled" && <Button onClick={resume}>{t("verify.resume")}</Button>}
            <Button variant="default" onClick={close}>
              {t("close")}
            </Button>
          </DialogFooter>
        </Stack>
      </Dialog>
    </>
  );
}
