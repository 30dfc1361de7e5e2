import { Badge, Text } from "@mantine/core";
import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { bytes, sequence } from "@/format/numbers";
import type { Message } from "@/features/messages/queries";
import { Instant } from "@/ui/measure/Instant";
import { TextButton } from "@/ui/menu/buttons";
import { MessageLine } from "@/ui/message/MessageLine";
import { placeKey } from "@/ui/message/place";
import { Tags } from "@/ui/message/MessageView";
import { useLanguage } from "@/ui/preferences";
import { defineColumns, headers } from "@/ui/table/define";
import type { Column } from "@/ui/table/types";

/** What of a message is in its line; in a tail also whether that was cut. */
export type ListedMessage = Omit<Message, "created_at"> & { is_cut?: boolean };

/**
 * What a line of messages shows; opening one is up to the list. What is the same in most messages is shown
 * when it is chosen.
 */
export function useMessageColumns(open: (key: string) => void): readonly Column<ListedMessage>[] {
  const { t } = useTranslation("messages");
  const language = useLanguage();
  return useMemo(
    () =>
      defineColumns<ListedMessage>(headers(t), (column) => [
        column("stored_at", { isFixed: true }, (row) => (
          <TextButton inherit className="nowrap" onClick={() => open(placeKey(row))}>
            <Instant at={row.stored_at} withMillis />
            <span className="sr-only"> {t("one.open", { place: placeKey(row) })}</span>
          </TextButton>
        )),
        column("says", { card: "line" }, (row) => <Says message={row} />),
        column("tags", { card: "fact" }, (row) => <Tags tags={row.tags} isLine />),
        column("broker_group", { card: "fact" }, (row) => row.broker_group),
        column("sequence", { align: "right", card: "fact" }, (row) => sequence(row.sequence)),
        column("message_id", { isHiddenAtFirst: true }, (row) => (
          <span className="nowrap">{row.message_id ?? "—"}</span>
        )),
        column("size", { align: "right" }, (row) => <span className="nowrap">{bytes(row.size, language)}</span>),
      ]),
    [t, language, open],
  );
}

/** In a line what a message says, or why that can't be shown. */
function Says({ message }: { message: ListedMessage }) {
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
