import { Center, Text } from "@mantine/core";
import { memo, useMemo } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { useMessageColumns } from "@/features/messages/columns";
import type { ListedMessage } from "@/features/messages/Says";
import { rowKey, type TailMessage, type TailRow } from "@/features/messages/tail";
import { shellWord } from "@/shared/clientLines";
import { Commands } from "@/shared/Teach";
import { cardParts } from "@/ui/table/cards";
import { Frame } from "@/ui/table/Frame";
import { Header } from "@/ui/table/Header";
import { openedBy } from "@/ui/table/rowClick";
import type { Column } from "@/ui/table/types";
import { Table } from "@/ui/table/Table";

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
  const columns = useMessageColumns(onOpen);
  const parts = useMemo(() => cardParts(columns), [columns]);
  return (
    <Frame label={t("tab.tail")} hasCards>
      <Table stickyHeader highlightOnHover>
        <Table.Thead>
          <Table.Tr>
            {columns.map((column) => (
              <Header key={column.id} column={column} />
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody data-opens="" onClick={openedBy(onOpen)}>
          {rows.map((row) =>
            row.kind === "gap" ? (
              <Table.Tr key={rowKey(row)} data-gap="">
                <Table.Td colSpan={columns.length} ta="center" c="orange">
                  {t("tail.gap")}
                </Table.Td>
              </Table.Tr>
            ) : (
              <Line key={rowKey(row)} message={row.message} place={rowKey(row)} columns={columns} parts={parts} />
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

interface LineProps {
  message: TailMessage;
  place: string;
  columns: readonly Column<ListedMessage>[];
  /** Of each column, its part of a card. */
  parts: readonly string[];
}

// Rows never change: only new ones are drawn when some arrive.
const Line = memo(function Line({ message, place, columns, parts }: LineProps) {
  const row = { ...message, size: message.bytes, withheld: message.reason, masked: false };
  return (
    <tr data-row={place}>
      {columns.map(({ id, header, align, cell }, at) => (
        <td key={id} className={`${parts[at]} ${align ?? ""}`} data-label={header}>
          {cell(row)}
        </td>
      ))}
    </tr>
  );
});
