import { Center, Text } from "@mantine/core";
import { lazy, Suspense, useCallback, useEffect, useMemo, useRef } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { cardParts } from "@/ui/table/cards";
import { Frame } from "@/ui/table/Frame";
import { Header, SelectAll } from "@/ui/table/Header";
import { Line } from "@/ui/table/Line";
import { openedBy } from "@/ui/table/rowClick";
import type { Column, Opening, Selection } from "@/ui/table/types";
import { Table } from "@/ui/table/Table";

// Few lists are long enough: these load it.
const VirtualRows = lazy(() => import("@/ui/table/VirtualRows"));
/** Fewer rows than this are simply drawn. */
const VIRTUAL_FROM = 120;

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
  /** A click anywhere on a row opens it. Its name is a button or link that does so by keyboard. */
  opening?: Opening;
  /** Whether there are more rows than these. */
  hasMore?: boolean;
  /** The end of these rows comes near. */
  onNearEnd?: () => void;
  /** When it changes, what is shown is another list: it begins at its top. */
  listKey?: unknown;
}

/** The rows of a list; of many only those in view are drawn. Scrolling draws new rows, and redraws nothing else. */
export function TableView<Row extends object>(props: TableViewProps<Row>) {
  const { label, rows, columns, hidden, rowKey, selection, opening, hasMore = false, onNearEnd } = props;
  const { t } = useTranslation();
  const shown = useMemo(
    () => columns.filter(({ id, isFixed }) => isFixed === true || !hidden?.has(id)),
    [columns, hidden],
  );
  const parts = useMemo(() => cardParts(shown), [shown]);
  const scroller = useRef<HTMLDivElement>(null);
  const isVirtual = rows.length >= VIRTUAL_FROM;
  const isNearEnd = hasMore && !isVirtual;
  useEffect(() => {
    if (isNearEnd) onNearEnd?.();
  }, [isNearEnd, onNearEnd, rows.length]);
  useEffect(() => {
    const region = scroller.current;
    region?.scrollTo({ top: 0 });
    // On a phone the page scrolls.
    if (region && region.getBoundingClientRect().top < 0) region.scrollIntoView();
  }, [props.listKey]);
  const toggle = useToggle(selection);

  const width = shown.length + (selection ? 1 : 0);
  const keys = useMemo(() => rows.map(rowKey), [rows, rowKey]);
  const line = (index: number, measure?: (element: Element | null) => void) => {
    const row = rows[index];
    const key = keys[index];
    if (row === undefined || key === undefined) return null;
    return (
      <Line
        key={key}
        row={row}
        rowKey={key}
        columns={shown}
        parts={parts}
        index={index}
        measure={measure}
        isOpened={opening?.opened === key}
        isSelected={selection?.selected.has(key) ?? false}
        isDisabled={selection?.isDisabled?.(row) ?? false}
        onToggle={selection && toggle}
      />
    );
  };
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
        <Table.Tbody
          data-virtual={isVirtual || undefined}
          {...(opening && { "data-opens": "", onClick: openedBy(opening.onOpen) })}
        >
          {isVirtual ? (
            <Suspense fallback={rows.slice(0, VIRTUAL_FROM).map((_, index) => line(index))}>
              <VirtualRows keys={keys} scroller={scroller} columns={width} hasMore={hasMore} onNearEnd={onNearEnd}>
                {line}
              </VirtualRows>
            </Suspense>
          ) : (
            rows.map((_, index) => line(index))
          )}
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

/** Chooses a row or not; stays the same function, so that choosing one row redraws no other. */
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
