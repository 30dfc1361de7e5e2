import { ActionIcon, Button, Center, Checkbox, Group, Loader, Menu, Select, Table, Text, Tooltip } from "@mantine/core";
import {
  IconArrowDown,
  IconArrowUp,
  IconChevronLeft,
  IconChevronRight,
  IconColumns,
  IconDownload,
  IconRefresh,
  IconSelector,
} from "@tabler/icons-react";
import { keepPreviousData, useInfiniteQuery, type QueryKey } from "@tanstack/react-query";
import { columnVisibilityFeature, createColumnHelper, tableFeatures, useTable } from "@tanstack/react-table";
import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useMemo, useRef, type ReactNode } from "react";
import { useTranslation } from "react-i18next";
import * as numbers from "@/format/numbers";
import { useLanguage } from "@/ui/preferences";
import { ProblemAlert } from "@/ui/ProblemAlert";
import { FilterBar } from "@/ui/table/FilterBar";
import { ALL, PAGE_SIZES, ROWS_MAX, type Column, type Filter, type Load } from "@/ui/table/types";
import { nextOrdering, useListState } from "@/ui/table/useListState";

const features = tableFeatures({ columnVisibilityFeature });
const ROW_PX = 40;
/** Fewer rows than this are simply drawn. */
const VIRTUAL_FROM = 120;
const NO_FILTERS: readonly Filter[] = [];

export interface Selection<Row> {
  selected: ReadonlySet<string>;
  onChange: (selected: ReadonlySet<string>) => void;
  /** Rows that can't be chosen. */
  isDisabled?: (row: Row) => boolean;
}

export interface DataTableProps<Row> {
  /** What the list is, for people who can't see it. */
  label: string;
  queryKey: QueryKey;
  load: Load<Row>;
  columns: readonly Column<Row>[];
  rowKey: (row: Row) => string;
  filters?: readonly Filter[];
  ordering?: string;
  size?: string;
  /** Keeps two lists of one page apart in the address. */
  prefix?: string;
  /** The API's address of the whole list, for CSV and JSON; the filters and the order go with it. */
  download?: string;
  /** Shown when there is nothing and no filter is set. */
  empty?: ReactNode;
  selection?: Selection<Row>;
  /** Beside the filters: what can be done with the list or with what is selected. */
  actions?: ReactNode;
  refetchMs?: number;
}

/**
 * A list of the API: filters, order, columns and page live in the address; rows are drawn only where one looks; downloads hold the
 * whole filtered list. The API does the filtering and sorting.
 */
export function DataTable<Row extends object>(props: DataTableProps<Row>) {
  const { label, columns, rowKey, filters = NO_FILTERS, selection } = props;
  const { t } = useTranslation();
  const language = useLanguage();
  const list = useListState(columns, filters, props);
  const isAll = list.size === ALL;
  const found = useInfiniteQuery({
    queryKey: [...props.queryKey, list.query, list.cursor ?? ""],
    queryFn: ({ signal, pageParam }) => props.load({ ...list.query, cursor: pageParam }, signal),
    initialPageParam: list.cursor,
    getNextPageParam: (last) => last.next ?? undefined,
    placeholderData: keepPreviousData,
    refetchInterval: props.refetchMs ?? false,
  });
  const pages = found.data?.pages;
  const rows = useMemo(
    () => (isAll ? (pages ?? []).flatMap((page) => page.results) : [...(pages?.[0]?.results ?? [])]),
    [pages, isAll],
  );
  const first = pages?.[0];
  const helper = useMemo(() => createColumnHelper<typeof features, Row>(), []);
  const definitions = useMemo(
    () =>
      helper.columns(
        columns.map((column) =>
          helper.display({ id: column.id, header: column.header, cell: ({ row }) => column.cell(row.original) }),
        ),
      ),
    [columns, helper],
  );
  const visibility = useMemo(
    () =>
      Object.fromEntries(columns.map((column) => [column.id, Boolean(column.isFixed) || !list.hidden.has(column.id)])),
    [columns, list.hidden],
  );
  const table = useTable({
    features,
    columns: definitions,
    data: rows,
    getRowId: rowKey,
    state: { columnVisibility: visibility },
    onColumnVisibilityChange: () => undefined,
  });
  const byId = useMemo(() => new Map(columns.map((column) => [column.id, column])), [columns]);
  const shown = table.getVisibleLeafColumns().flatMap(({ id }) => byId.get(id) ?? []);
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
  const lastShown = items.at(-1)?.index ?? 0;
  const { hasNextPage, isFetchingNextPage, fetchNextPage } = found;
  const isFull = rows.length >= ROWS_MAX;
  useEffect(() => {
    if (isAll && hasNextPage && !isFetchingNextPage && !isFull && lastShown >= rows.length - 150) void fetchNextPage();
  }, [isAll, hasNextPage, isFetchingNextPage, isFull, lastShown, rows.length, fetchNextPage]);
  useEffect(() => {
    scroller.current?.scrollTo({ top: 0 });
  }, [list.query, list.cursor]);

  const models = table.getRowModel().rows;
  const drawn = isVirtual ? items.flatMap((item) => models[item.index] ?? []) : models;
  const above = items[0]?.start ?? 0;
  const below = isVirtual ? virtual.getTotalSize() - (items.at(-1)?.end ?? 0) : 0;
  const width = shown.length + (selection ? 1 : 0);
  const choosable = selection ? rows.filter((row) => !selection.isDisabled?.(row)).map(rowKey) : [];
  const chosenHere = choosable.filter((key) => selection?.selected.has(key)).length;
  const isEmpty = found.isSuccess && rows.length === 0;

  if (isEmpty && Object.keys(list.filters).length === 0 && !list.cursor && props.empty) {
    return (
      <>
        {props.actions && (
          <Group justify="flex-end" mb="sm">
            {props.actions}
          </Group>
        )}
        {props.empty}
      </>
    );
  }
  return (
    <div data-table={label} data-fetching={found.isFetching || undefined}>
      <Group justify="space-between" mb="xs" gap="xs">
        <FilterBar filters={filters} values={list.filters} onChange={list.setFilter} onClear={list.clearFilters} />
        <Group gap={4}>
          {props.actions}
          <Tooltip label={t("table.refresh")}>
            <ActionIcon
              variant="default"
              size="lg"
              aria-label={t("table.refresh")}
              loading={found.isFetching && !found.isPending}
              onClick={() => void found.refetch()}
            >
              <IconRefresh size={18} aria-hidden />
            </ActionIcon>
          </Tooltip>
          <Menu closeOnItemClick={false} position="bottom-end">
            <Menu.Target>
              <ActionIcon variant="default" size="lg" aria-label={t("table.columns")} title={t("table.columns")}>
                <IconColumns size={18} aria-hidden />
              </ActionIcon>
            </Menu.Target>
            <Menu.Dropdown>
              {columns
                .filter((column) => !column.isFixed)
                .map((column) => (
                  <Menu.Item
                    key={column.id}
                    role="menuitemcheckbox"
                    aria-checked={!list.hidden.has(column.id)}
                    leftSection={<span aria-hidden>{list.hidden.has(column.id) ? "☐" : "☑"}</span>}
                    onClick={() => {
                      const next = new Set(list.hidden);
                      if (!next.delete(column.id)) next.add(column.id);
                      next.delete("-");
                      list.setHidden(next);
                    }}
                  >
                    {column.header}
                  </Menu.Item>
                ))}
            </Menu.Dropdown>
          </Menu>
          {props.download && <Download path={props.download} query={{ ...list.filters, ordering: list.ordering }} />}
        </Group>
      </Group>
      {found.isError && <ProblemAlert error={found.error} onRetry={() => void found.refetch()} />}
      {found.isPending && (
        <Center p="xl">
          <Loader aria-label={t("state.loading")} />
        </Center>
      )}
      {found.isSuccess && (
        // A scrolled region has to be reachable by keyboard.
        // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex
        <div ref={scroller} className="table-scroll" tabIndex={0} role="region" aria-label={label}>
          <Table stickyHeader highlightOnHover aria-rowcount={hasNextPage ? -1 : rows.length + 1}>
            <Table.Thead>
              <Table.Tr>
                {selection && (
                  <Table.Th w={40}>
                    <Checkbox
                      aria-label={t("table.select_all")}
                      checked={choosable.length > 0 && chosenHere === choosable.length}
                      indeterminate={chosenHere > 0 && chosenHere < choosable.length}
                      onChange={(event) => selection.onChange(new Set(event.currentTarget.checked ? choosable : []))}
                    />
                  </Table.Th>
                )}
                {shown.map((column) => (
                  <Header
                    key={column.id}
                    column={column}
                    ordering={list.ordering}
                    onOrder={(field) => list.setOrdering(nextOrdering(list.ordering, field, props.ordering ?? ""))}
                  />
                ))}
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {above > 0 && <Spacer px={above} columns={width} />}
              {drawn.map((row) => (
                <Table.Tr key={row.id} data-row={row.id}>
                  {selection && (
                    <Table.Td>
                      <Checkbox
                        aria-label={t("table.select_row", { name: row.id })}
                        disabled={selection.isDisabled?.(row.original)}
                        checked={selection.selected.has(row.id)}
                        onChange={(event) => {
                          const next = new Set(selection.selected);
                          if (event.currentTarget.checked) next.add(row.id);
                          else next.delete(row.id);
                          selection.onChange(next);
                        }}
                      />
                    </Table.Td>
                  )}
                  {row.getVisibleCells().map((cell) => (
                    <Table.Td key={cell.id} ta={byId.get(cell.column.id)?.align} data-cell={cell.column.id}>
                      <table.FlexRender cell={cell} />
                    </Table.Td>
                  ))}
                </Table.Tr>
              ))}
              {below > 0 && <Spacer px={below} columns={width} />}
            </Table.Tbody>
          </Table>
          {isEmpty && (
            <Center p="xl">
              <Text c="dimmed">{t("table.nothing_found")}</Text>
            </Center>
          )}
        </div>
      )}
      <Group justify="space-between" mt="xs" gap="xs">
        <Text size="sm" c="dimmed" aria-live="polite" data-rows={rows.length}>
          {t(hasNextPage && isAll ? "table.rows_so_far" : "table.rows", {
            count: rows.length,
            shown: numbers.count(rows.length, language),
          })}
          {isFull && ` · ${t("table.too_many", { max: numbers.count(ROWS_MAX, language) })}`}
        </Text>
        <Group gap="xs">
          <Select
            size="xs"
            w={110}
            aria-label={t("table.page_size")}
            allowDeselect={false}
            value={list.size}
            onChange={(size) => list.setSize(size ?? PAGE_SIZES[0])}
            data={[
              ...PAGE_SIZES.map((size) => ({ value: size, label: t("table.per_page", { size }) })),
              { value: ALL, label: t("table.all") },
            ]}
          />
          {!isAll && (
            <Button.Group>
              <Button
                size="xs"
                variant="default"
                disabled={!list.cursor}
                onClick={() => list.goTo(undefined)}
                aria-label={t("table.first")}
              >
                «
              </Button>
              <Button
                size="xs"
                variant="default"
                disabled={!first?.previous}
                onClick={() => list.goTo(first?.previous ?? undefined)}
                leftSection={<IconChevronLeft size={14} aria-hidden />}
              >
                {t("table.previous")}
              </Button>
              <Button
                size="xs"
                variant="default"
                disabled={!first?.next}
                onClick={() => list.goTo(first?.next ?? undefined)}
                rightSection={<IconChevronRight size={14} aria-hidden />}
              >
                {t("table.next")}
              </Button>
            </Button.Group>
          )}
        </Group>
      </Group>
    </div>
  );
}

function Spacer({ px, columns }: { px: number; columns: number }) {
  return (
    <tr aria-hidden>
      <td colSpan={columns} style={{ height: px, padding: 0, border: 0 }} />
    </tr>
  );
}

function Header<Row>({
  column,
  ordering,
  onOrder,
}: {
  column: Column<Row>;
  ordering: string;
  onOrder: (field: string) => void;
}) {
  const { sort } = column;
  if (!sort) return <Table.Th ta={column.align}>{column.header}</Table.Th>;
  const direction = ordering === sort ? "ascending" : ordering === `-${sort}` ? "descending" : "none";
  const Icon = direction === "ascending" ? IconArrowUp : direction === "descending" ? IconArrowDown : IconSelector;
  return (
    <Table.Th ta={column.align} aria-sort={direction}>
      <button type="button" className="sort" onClick={() => onOrder(sort)} data-sort={sort}>
        {column.header} <Icon size={14} aria-hidden />
      </button>
    </Table.Th>
  );
}

function Download({ path, query }: { path: string; query: Readonly<Record<string, string>> }) {
  const { t } = useTranslation();
  const address = (format: string) =>
    `${path}?${new URLSearchParams({ ...Object.fromEntries(Object.entries(query).filter(([, value]) => value)), format }).toString()}`;
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <ActionIcon variant="default" size="lg" aria-label={t("table.download")} title={t("table.download")}>
          <IconDownload size={18} aria-hidden />
        </ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Item component="a" href={address("csv")} download>
          {t("table.download_csv")}
        </Menu.Item>
        <Menu.Item component="a" href={address("json")} download>
          {t("table.download_json")}
        </Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}
