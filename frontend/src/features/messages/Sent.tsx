import { Alert, Group, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { Receipt } from "@/features/messages/queries";
import { CopyIcon } from "@/ui/CopyIcon";
import { Instant } from "@/ui/Instant";
import { LinkTo } from "@/ui/LinkTo";

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
