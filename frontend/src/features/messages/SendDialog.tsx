import { Text } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { DraftForm } from "@/features/messages/DraftForm";
import { EMPTY, faultsOf, messageOf } from "@/features/messages/draft";
import { sendMessage, type Receipt } from "@/features/messages/queries";
import { PlanDialog } from "@/ui/ChangeDialog";

interface Props {
  subject: string;
  opened: boolean;
  onClose: () => void;
  onSent: (receipt: Receipt) => void;
}

/** Send a test message: filled in, then stored. What was filled in stays for the next one. */
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
      actionLabel={t("send.action")}
      inputs={JSON.stringify(draft)}
      isReady={faults.length === 0}
      doneMessage={t("send.done")}
      onDone={onSent}
    >
      <DraftForm draft={draft} faults={faults} onChange={setDraft} />
      <Text size="sm" c="dimmed">
        {t("send.like_any")}
      </Text>
    </PlanDialog>
  );
}
