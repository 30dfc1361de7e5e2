import { Center, Table, Text } from "@mantine/core";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useMemo, useRef } from "react";
import { useTranslation } from "react-i18next";
import { cardParts } from "@/ui/table/cards";
import { Frame } from "@/ui/table/Frame";
import { Header, SelectAll } from "@/ui/table/Header";
import { Line } from "@/ui/table/Line";
import type { Column, Selection } from "@/ui/table/types";

const ROW_PX = 40;
/** Fewer rows than this are simply drawn. */
const VIRTUAL_FROM = 120;
/** Rows behind the last drawn one that should be there already: a piece ahead, however fast somebody scrolls. */
const ROWS_AHEAD = 500;

export interface TableViewProps<Row> {
  label: string;
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  hidden?: ReadonlySet<string>;
  rowKey: (row: Row) => string;
  ordering?: string;
  /** The order without one chosen. */
  fallback?: string;
  onOrder?: (ordering: string) => void;
  selection?: Selection<Row>;
  /** Whether there are more rows than these. */
  hasMore?: boolean;
  /** The end of these rows comes near. */
  onNearEnd?: () => void;
  /** When it changes, what is shown is another list: it begins at its top. */
  listKey?: unknown;
}

/** The rows of a list; of many only those where one looks are drawn. Scrolling draws new rows, and nothing else anew. */
export function TableView<Row extends object>(props: TableViewProps<Row>) {
  const { label, rows, columns, hidden, rowKey, selection, hasMore = false, onNearEnd } = props;
  const { t } = useTranslation();
  const shown = useMemo(
    () => columns.filter(({ id, isFixed }) => isFixed === true || !hidden?.has(id)),
    [columns, hidden],
  );
  const parts = useMemo(() => cardParts(shown), [shown]);
  const scroller = useRef<HTMLDivElement>(null);
  const isVirtual = rows.length >= VIRTUAL_FROM;
  // eslint-disable-next-line react-hooks/incompatible-library -- the virtualizer is used in this render only
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: 12,
    enabled: isVirtual,
    getItemKey: (index) => {
      const row = rows[index];
      return row ? rowKey(row) : index;
    },
  });
  const items = isVirtual ? virtual.getVirtualItems() : [];
  const isNearEnd = hasMore && (items.at(-1)?.index ?? 0) >= rows.length - ROWS_AHEAD;
  useEffect(() => {
    if (isNearEnd) onNearEnd?.();
  }, [isNearEnd, onNearEnd, rows.length]);
  useEffect(() => {
    scroller.current?.scrollTo({ top: 0 });
  }, [props.listKey]);
  const toggle = useToggle(selection);

  const drawn = isVirtual ? items.map(({ index }) => index) : [...rows.keys()];
  const above = items[0]?.start ?? 0;
  const below = isVirtual ? virtual.getTotalSize() - (items.at(-1)?.end ?? 0) : 0;
  const width = shown.length + (selection ? 1 : 0);
  return (
    <Frame label={label} scroller={scroller} hasCards>
      <Table stickyHeader highlightOnHover aria-rowcount={hasMore ? -1 : rows.length + 1}>
        <Table.Thead>
          <Table.Tr>
            {selection && <SelectAll rows={rows} rowKey={rowKey} selection={selection} />}
            {shown.map((column) => (
              <Header
                key={column.id}
                column={column}
                ordering={props.ordering}
                fallback={props.fallback}
                onOrder={props.onOrder}
              />
            ))}
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {above > 0 && <Spacer px={above} columns={width} />}
          {drawn.map((index) => {
            const row = rows[index];
            if (!row) return null;
            const key = rowKey(row);
            return (
              <Line
                key={key}
                row={row}
                rowKey={key}
                columns={shown}
                parts={parts}
                index={index}
                measure={isVirtual ? virtual.measureElement : undefined}
                isSelected={selection?.selected.has(key) ?? false}
                isDisabled={selection?.isDisabled?.(row) ?? false}
                onToggle={selection && toggle}
              />
            );
          })}
          {below > 0 && <Spacer px={below} columns={width} />}
        </Table.Tbody>
      </Table>
      {rows.length === 0 && (
        <Center p="xl">
          <Text c="dimmed">{t("table.nothing_found")}</Text>
        </Center>
      )}
    </Frame>
  );
}

/** Chooses a row or not; stays the same function, so that choosing one row draws no other anew. */
function useToggle<Row>(selection: Selection<Row> | undefined): (key: string, isSelected: boolean) => void {
  const latest = useRef(selection);
  useEffect(() => {
    latest.current = selection;
  });
  return useCallback((key, isSelected) => {
    const next = new Set(latest.current?.selected);
    if (isSelected) next.add(key);
    else next.delete(key);
    latest.current?.onChange(next);
  }, []);
}

function Spacer({ px, columns }: { px: number; columns: number }) {
  return (
    <tr aria-hidden>
      <td colSpan={columns} style={{ height: px, padding: 0, border: 0 }} />
    </tr>
  );
}
