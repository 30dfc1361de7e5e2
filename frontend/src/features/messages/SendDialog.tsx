import { Alert, Group, Text } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { EMPTY, faultsOf, messageOf } from "@/features/messages/draft";
import { DraftForm } from "@/features/messages/DraftForm";
import { sendMessage, type Receipt } from "@/features/messages/queries";
import { PreviewDialog } from "@/ui/dialog/ChangeDialog";
import { CopyIcon } from "@/ui/menu/CopyIcon";
import { Instant } from "@/ui/measure/Instant";
import { LinkTo } from "@/ui/links/LinkTo";

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
    <PreviewDialog<Receipt>
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
    </PreviewDialog>
  );
}

/** The receipt of a message that was sent, with the way to it. */
export function Sent({ receipt, onClose }: { receipt: Receipt; onClose: () => void }) {
  const { t } = useTranslation("messages");
  const id = receipt.message_id ?? "";
  return (
    <Alert
      color="teal"
      title={t("sent.title")}
      withCloseButton
      closeButtonLabel={t("common:action.close")}
      onClose={onClose}
      role="status"
      data-receipt={id}
    >
      <Group gap="xs">
        <Text size="sm" className="break">
          {id}
        </Text>
        <CopyIcon value={id} what={t("column.message_id")} />
        {receipt.broker_group !== null && <Text size="sm">{t("sent.on", { group: receipt.broker_group })}</Text>}
        {receipt.due_at === null ? (
          <LinkTo size="sm" to="." search={{ tab: "messages", by: "id", message_id: id }}>
            {t("sent.show")}
          </LinkTo>
        ) : (
          <>
            <Text size="sm">
              {t("sent.due")} <Instant at={receipt.due_at} />
            </Text>
            <LinkTo size="sm" to="/delayed" search={{ subject: receipt.subject }}>
              {t("sent.show_delayed")}
            </LinkTo>
          </>
        )}
      </Group>
    </Alert>
  );
}
