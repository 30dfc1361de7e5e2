import { Stack, Text } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { DraftForm } from "@/features/messages/DraftForm";
import { EMPTY, faultsOf, messageOf } from "@/features/messages/draft";
import { sendMessage, type Receipt } from "@/features/messages/queries";
import { PlanDialog } from "@/ui/ChangeDialog";
import { Instant } from "@/ui/Instant";

interface Props {
  subject: string;
  opened: boolean;
  onClose: () => void;
  onSent: (receipt: Receipt) => void;
}

/** Send a test message: filled in, checked by the API's dry run, then stored. What was filled in stays for the next one. */
export function SendDialog({ subject, opened, onClose, onSent }: Props) {
  const { t } = useTranslation("messages");
  const [draft, setDraft] = useState(EMPTY);
  const faults = faultsOf(draft);
  return (
    <PlanDialog<Receipt>
      opened={opened}
      onClose={onClose}
      title={t("send.title", { subject })}
      run={({ dryRun, reason }) => sendMessage(subject, messageOf(draft, reason), dryRun)}
      show={(plan) => (
        <Stack gap={4}>
          <Text size="sm">
            {plan.due_at === null ? (
              t("send.plan_now", { subject })
            ) : (
              <>
                {t("send.plan_due", { subject })} <Instant at={plan.due_at} />
              </>
            )}
          </Text>
          <Text size="sm">{t("send.plan_real")}</Text>
        </Stack>
      )}
      isDirect
      actionLabel={t("send.action")}
      inputs={JSON.stringify(draft)}
      isReady={faults.length === 0}
      doneMessage={t("send.done")}
      onDone={onSent}
    >
      <DraftForm draft={draft} faults={faults} onChange={setDraft} />
    </PlanDialog>
  );
}
