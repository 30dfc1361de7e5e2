import { Badge, Text } from "@mantine/core";
import { useTranslation } from "@/i18n/useTranslation";
import type { Message } from "@/features/messages/queries";
import { MessageLine } from "@/ui/message/MessageLine";

/** What of a message is in its line; in a tail also whether that was cut. */
export type ListedMessage = Omit<Message, "created_at"> & { is_cut?: boolean };

/** In a line what a message says, or why that can't be shown. */
export function Says({ message }: { message: ListedMessage }) {
  const { t } = useTranslation("messages");
  if (message.withheld !== null) {
    return (
      <Badge color="red" variant="light" title={message.withheld}>
        {t("says.withheld")}
      </Badge>
    );
  }
  if (message.masked) {
    return (
      <Text span inherit c="dimmed" title={t("says.masked_why")}>
        {t("says.masked")}
      </Text>
    );
  }
  return (
    <>
      <MessageLine properties={message.properties ?? {}} />
      {message.masked_values.length > 0 && (
        <Badge
          ml={6}
          size="xs"
          variant="default"
          tt="none"
          title={t("says.partly_masked_why", { rules: message.masked_values.map(({ rule }) => rule).join(", ") })}
        >
          {t("says.partly_masked")}
        </Badge>
      )}
      {message.is_cut && (
        <Badge ml={6} size="xs" variant="default" tt="none" title={t("tail.cut_why")}>
          {t("tail.cut")}
        </Badge>
      )}
    </>
  );
}
