import { Button, Progress as Bar, Stack, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { count } from "@/format/numbers";
import { useLanguage } from "@/ui/preferences";
import { ProblemAlert } from "@/ui/ProblemAlert";
import type { Steps } from "@/ui/useSteps";
import { Dialog, DialogFooter } from "@/ui/Dialog";

/** Long work under way: how far it is, a way to stop it and to go on, and what it came to. */
export function Progress<Found>({
  title,
  steps,
  total,
  children,
  onClose,
}: {
  title: string;
  steps: Steps<Found>;
  total: number;
  children: ReactNode;
  onClose: () => void;
}) {
  const { t } = useTranslation("delayed");
  const language = useLanguage();
  const { state, done, error, cancel, resume } = steps;
  return (
    <Dialog
      opened={state !== "idle"}
      onClose={onClose}
      title={title}
      size="lg"
      // Closing by a slip would stop it.
      closeOnClickOutside={state !== "running"}
    >
      <Stack data-progress={state}>
        <Bar value={total === 0 ? 100 : (done / total) * 100} aria-label={title} />
        <Text size="sm" aria-live="polite">
          {t(`progress.${state}`, { done: count(done, language), total: count(total, language) })}
        </Text>
        {children}
        {state === "failed" && <ProblemAlert error={error} onRetry={resume} />}
        <DialogFooter>
          {state === "running" && (
            <Button variant="default" onClick={cancel}>
              {t("common:action.stop")}
            </Button>
          )}
          {state === "cancelled" && (
            <Button variant="default" onClick={resume}>
              {t("common:action.go_on")}
            </Button>
          )}
          <Button variant="default" onClick={onClose}>
            {t("common:action.close")}
          </Button>
        </DialogFooter>
      </Stack>
    </Dialog>
  );
}
