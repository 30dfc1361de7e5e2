import { Center, Table, Text } from "@mantine/core";
import { createColumnHelper, useTable } from "@tanstack/react-table";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useMemo, useRef, type KeyboardEvent } from "react";
import { useTranslation } from "react-i18next";
import { features } from "@/ui/table/features";
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
  hidden: ReadonlySet<string>;
  rowKey: (row: Row) => string;
  ordering: string;
  /** The order without one chosen. */
  fallback: string;
  onOrder: (ordering: string) => void;
  selection?: Selection<Row>;
  /** Whether there are more rows than these. */
  hasMore: boolean;
  /** The end of these rows comes near. */
  onNearEnd: () => void;
  /** When it changes, what is shown is another list: it begins at its top. */
  listKey: unknown;
}

/** The rows of a list; of many only those where one looks are drawn. Scrolling draws new rows, and nothing else anew. */
export function TableView<Row extends object>(props: TableViewProps<Row>) {
  const { label, rows, columns, hidden, rowKey, selection, hasMore, onNearEnd } = props;
  const { t } = useTranslation();
  const { table, shown } = useModel(rows, columns, hidden, rowKey);
  const models = table.getRowModel().rows;
  const scroller = useRef<HTMLDivElement>(null);
  const isVirtual = rows.length >= VIRTUAL_FROM;
  // eslint-disable-next-line react-hooks/incompatible-library -- the virtualizer is used in this render only
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: 12,
    enabled: isVirtual,
    getItemKey: (index) => models[index]?.id ?? index,
  });
  const items = isVirtual ? virtual.getVirtualItems() : [];
  const isNearEnd = hasMore && (items.at(-1)?.index ?? 0) >= rows.length - ROWS_AHEAD;
  useEffect(() => {
    if (isNearEnd) onNearEnd();
  }, [isNearEnd, onNearEnd, rows.length]);
  useEffect(() => {
    scroller.current?.scrollTo({ top: 0 });
  }, [props.listKey]);
  const toggle = useToggle(selection);

  const drawn = isVirtual ? items.map(({ index }) => index) : [...models.keys()];
  const above = items[0]?.start ?? 0;
  const below = isVirtual ? virtual.getTotalSize() - (items.at(-1)?.end ?? 0) : 0;
  const width = shown.length + (selection ? 1 : 0);
  return (
    // A scrolled region has to be reachable by keyboard.
    // eslint-disable-next-line jsx-a11y/no-noninteractive-element-interactions
    <div
      ref={scroller}
      className="table-scroll"
      // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex
      tabIndex={0}
      role="region"
      aria-label={label}
      onKeyDown={onEdgeKey}
    >
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
            const row = models[index];
            return (
              row && (
                <Line
                  key={row.id}
                  row={row}
                  columns={shown}
                  index={index}
                  measure={isVirtual ? virtual.measureElement : undefined}
                  isSelected={selection?.selected.has(row.id) ?? false}
                  isDisabled={selection?.isDisabled?.(row.original) ?? false}
                  onToggle={selection && toggle}
                />
              )
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
    </div>
  );
}

/** Home and End at once: the browser's smooth way there ends where rows on it turn out higher than was thought. */
function onEdgeKey(event: KeyboardEvent<HTMLElement>) {
  const region = event.currentTarget;
  if (event.target !== region || (event.key !== "Home" && event.key !== "End")) return;
  event.preventDefault();
  region.scrollTo({ top: event.key === "Home" ? 0 : region.scrollHeight, behavior: "instant" });
}

function useModel<Row extends object>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  hidden: ReadonlySet<string>,
  rowKey: (row: Row) => string,
) {
  const shown = useMemo(
    () => columns.filter(({ id, isFixed }) => isFixed === true || !hidden.has(id)),
    [columns, hidden],
  );
  const definitions = useMemo(() => {
    const helper = createColumnHelper<typeof features, Row>();
    return helper.columns(
      columns.map(({ id, header, cell }) => helper.display({ id, header, cell: ({ row }) => cell(row.original) })),
    );
  }, [columns]);
  const columnVisibility = useMemo(
    () => Object.fromEntries(columns.map((column) => [column.id, shown.includes(column)])),
    [columns, shown],
  );
  const table = useTable({
    features,
    columns: definitions,
    data: rows,
    getRowId: rowKey,
    state: { columnVisibility },
    onColumnVisibilityChange: () => undefined,
  });
  return { table, shown };
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
