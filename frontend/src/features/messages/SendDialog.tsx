import { Alert, Group, Text } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { draftOf, EMPTY, faultsOf, messageOf } from "@/features/messages/draft";
import { DraftForm } from "@/features/messages/DraftForm";
import { sendMessage, type Message, type Receipt } from "@/features/messages/queries";
import { SubjectField } from "@/features/messages/SubjectField";
import { PreviewDialog } from "@/ui/dialog/ChangeDialog";
import { CopyIcon } from "@/ui/menu/CopyIcon";
import { Instant } from "@/ui/measure/Instant";
import { LinkTo } from "@/ui/links/LinkTo";
import { EncodedAgain } from "@/ui/message/EncodedAgain";
import { placeKey } from "@/ui/message/place";

interface Props {
  subject: string;
  /** The stored message that is edited; null: a new one. */
  origin: Message | null;
  opened: boolean;
  onClose: () => void;
  onSent: (receipt: Receipt) => void;
}

/**
 * Send a message: a new one, or an edited copy of a stored one, also to another subject. What was filled in stays for
 * the next one.
 */
export function SendDialog({ subject, origin, opened, onClose, onSent }: Props) {
  const { t } = useTranslation("messages");
  const [draft, setDraft] = useState(() => (origin ? draftOf(origin) : EMPTY));
  const [target, setTarget] = useState(subject);
  const faults = faultsOf(draft);
  return (
    <PreviewDialog<Receipt>
      opened={opened}
      onClose={onClose}
      title={origin ? t("send.title_copy", { place: placeKey(origin) }) : t("send.title", { subject })}
      run={({ dryRun, reason }) => {
        const message = messageOf(draft, reason);
        const copy_of = origin && { subject, broker_group: origin.broker_group, sequence: origin.sequence };
        return sendMessage(target, copy_of ? { ...message, copy_of } : message, dryRun);
      }}
      actionLabel={t("send.action")}
      inputs={JSON.stringify([draft, target])}
      isReady={faults.length === 0 && target !== ""}
      doneMessage={t("send.done")}
      onDone={onSent}
      {...(origin && {
        show: (preview: Receipt) => (
          <Text size="sm">
            {t(preview.due_at === null ? "send.preview" : "send.preview_delayed", { subject: target })}
          </Text>
        ),
      })}
    >
      {origin && <SubjectField label={t("send.to")} value={target} onChange={setTarget} />}
      <DraftForm draft={draft} faults={faults} onChange={setDraft} />
      {origin && <EncodedAgain decoding={origin.decoding} />}
      <Text size="sm" c="dimmed">
        {t(origin ? "send.copy_says" : "send.like_any")}
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
          <LinkTo
            size="sm"
            to="/subjects/$subject"
            params={{ subject: receipt.subject }}
            search={{ tab: "messages", by: "id", message_id: id }}
          >
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
