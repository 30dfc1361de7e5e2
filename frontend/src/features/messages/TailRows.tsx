import { Anchor, Badge, Center, Table, Text } from "@mantine/core";
import { memo } from "react";
import { useTranslation } from "react-i18next";
import { Says } from "@/features/messages/columns";
import { rowKey, type TailMessage, type TailRow } from "@/features/messages/tail";
import { bytes, sequence } from "@/format/numbers";
import { Instant } from "@/ui/Instant";
import { Tags } from "@/ui/message/MessageView";
import { useLanguage } from "@/ui/preferences";
import { shellWord } from "@/ui/clientLines";
import { Commands } from "@/ui/Teach";
import { Frame } from "@/ui/table/Frame";

interface Props {
  rows: readonly TailRow[];
  onOpen: (key: string) => void;
  isFiltered: boolean;
  isLive: boolean;
  subject: string;
}

/** The lines of a tail, newest on top. */
export function TailRows({ rows, onOpen, isFiltered, isLive, subject }: Props) {
  const { t } = useTranslation("messages");
  return (
    <Frame label={t("tab.tail")}>
      <Table stickyHeader highlightOnHover>
        <Table.Thead>
          <Table.Tr>
            <Table.Th ta="right">{t("column.sequence")}</Table.Th>
            <Table.Th>{t("column.broker_group")}</Table.Th>
            <Table.Th>{t("column.stored_at")}</Table.Th>
            <Table.Th>{t("column.message_id")}</Table.Th>
            <Table.Th>{t("column.tags")}</Table.Th>
            <Table.Th>{t("column.says")}</Table.Th>
            <Table.Th ta="right">{t("column.size")}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {rows.map((row) =>
            row.kind === "gap" ? (
              <Gap key={rowKey(row)} />
            ) : (
              <Line key={rowKey(row)} message={row.message} place={rowKey(row)} onOpen={onOpen} />
            ),
          )}
        </Table.Tbody>
      </Table>
      {rows.length === 0 && (
        <Center p="xl">
          {isFiltered ? (
            <Text c="dimmed">{t("tail.nothing_matches")}</Text>
          ) : (
            isLive && (
              <div>
                <Text c="dimmed" mb="xs">
                  {t("tail.quiet")}
                </Text>
                <Commands lines={[`qmq produce ${shellWord(subject)} -p id=1`]} />
              </div>
            )
          )}
        </Center>
      )}
    </Frame>
  );
}

function Gap() {
  const { t } = useTranslation("messages");
  return (
    <Table.Tr data-gap="">
      <Table.Td colSpan={7} ta="center" c="orange">
        {t("tail.gap")}
      </Table.Td>
    </Table.Tr>
  );
}

// Rows never change: only new ones are drawn when some arrive.
const Line = memo(function Line({
  message,
  place,
  onOpen,
}: {
  message: TailMessage;
  place: string;
  onOpen: (key: string) => void;
}) {
  const { t } = useTranslation("messages");
  const language = useLanguage();
  return (
    <Table.Tr data-row={place}>
      <Table.Td ta="right">
        <Anchor
          component="button"
          type="button"
          inherit
          className="nowrap"
          onClick={() => onOpen(place)}
          aria-label={t("one.open", { place })}
        >
          {sequence(message.sequence)}
        </Anchor>
      </Table.Td>
      <Table.Td>{message.broker_group}</Table.Td>
      <Table.Td>
        <Instant at={message.stored_at} withMillis />
      </Table.Td>
      <Table.Td className="nowrap">{message.message_id ?? "—"}</Table.Td>
      <Table.Td>
        <Tags tags={message.tags} isLine />
      </Table.Td>
      <Table.Td>
        <Says message={{ properties: message.properties, masked: false, withheld: message.reason }} />
        {message.is_cut && (
          <Badge ml={6} size="xs" variant="default" tt="none" title={t("tail.cut_why")}>
            {t("tail.cut")}
          </Badge>
        )}
      </Table.Td>
      <Table.Td ta="right" className="nowrap">
        {bytes(message.bytes, language)}
      </Table.Td>
    </Table.Tr>
  );
});
