import { Center, Group, Loader, Text } from "@mantine/core";
import { keepPreviousData, useInfiniteQuery, type QueryKey } from "@tanstack/react-query";
import { useCallback, useEffect, useMemo, type ReactNode } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import * as numbers from "@/format/numbers";
import { useLanguage } from "@/ui/preferences";
import { ProblemAlert } from "@/ui/page/ProblemAlert";
import { FilterBar } from "@/ui/table/FilterBar";
import { PageSize, Pager } from "@/ui/table/Pager";
import { TableView } from "@/ui/table/TableView";
import { Columns, Download, Refresh } from "@/ui/table/Toolbar";
import { ALL, ROWS_MAX, type Column, type Filter, type Load, type Opening, type Selection } from "@/ui/table/types";
import { useListState } from "@/ui/table/useListState";
import { Unreachable } from "@/ui/measure/Unreachable";

const NO_FILTERS: readonly Filter[] = [];

export interface DataTableProps<Row> {
  /** What the list is, for people who can't see it. */
  label: string;
  queryKey: QueryKey;
  load: Load<Row>;
  /** Keep them the same from render to render: other columns redraw all rows. */
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
  /** A click anywhere on a row opens it. */
  opening?: Opening;
  /** Gets the keys of the rows that are shown, in their order. */
  onRows?: (keys: readonly string[]) => void;
  /** Before the filters: what chooses another list. */
  lead?: ReactNode;
  /** Beside the filters: what can be done with the list or with what is selected. */
  actions?: ReactNode;
  refetchMs?: number;
  /** False where each request counts: reading messages is limited and goes to the audit log. */
  refetchOnFocus?: boolean;
}

/**
 * A list of the API: filters, order, columns and page live in the address; rows are drawn only where one looks;
 * downloads hold the whole filtered list. The API does the filtering and sorting.
 */
export function DataTable<Row extends object>(props: DataTableProps<Row>) {
  const { label, columns, filters = NO_FILTERS } = props;
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
    // Of a scrolled list every piece would be asked for again.
    refetchOnWindowFocus: (props.refetchOnFocus ?? true) && !isAll,
  });
  const pages = found.data?.pages;
  const rows = useMemo(
    () => (isAll ? (pages ?? []).flatMap((page) => page.results) : [...(pages?.[0]?.results ?? [])]),
    [pages, isAll],
  );
  const first = pages?.[0];
  const unreachable = useMemo(
    () => Object.assign({}, ...(pages ?? []).map((page) => page.unreachable)) as Readonly<Record<string, string>>,
    [pages],
  );
  const isFull = rows.length >= ROWS_MAX;
  const hasMore = isAll && found.hasNextPage && !isFull;
  const isPart = !isAll && Boolean(list.cursor || first?.next || first?.previous);
  const { isFetching, fetchNextPage } = found;
  const loadMore = useCallback(() => {
    if (!isFetching) void fetchNextPage();
  }, [isFetching, fetchNextPage]);
  const listKey = useMemo(() => [list.query, list.cursor], [list.query, list.cursor]);
  const { onRows, rowKey } = props;
  useEffect(() => onRows?.(rows.map(rowKey)), [onRows, rows, rowKey]);
  const isEmpty = found.isSuccess && rows.length === 0;

  if (isEmpty && Object.keys(list.filters).length === 0 && !list.cursor && props.empty) {
    return (
      <>
        {(props.lead ?? props.actions) && (
          <Group justify={props.lead ? "space-between" : "flex-end"} mb="sm">
            {props.lead}
            {props.actions}
          </Group>
        )}
        <Unreachable of={unreachable} />
        {props.empty}
      </>
    );
  }
  return (
    <div data-table={label} data-fetching={isFetching || undefined}>
      <Group justify="space-between" mb="xs" gap="xs" className="table-tools">
        {props.lead}
        <FilterBar
          label={label}
          filters={filters}
          values={list.filters}
          onChange={list.setFilter}
          onClear={list.clearFilters}
          columns={columns}
          ordering={list.ordering}
          onOrder={list.setOrdering}
        />
        <Group gap={4}>
          {props.actions}
          <Refresh isBusy={isFetching && !found.isPending} onClick={() => void found.refetch()} />
          <Columns columns={columns} hidden={list.hidden} onChange={list.setHidden} />
          {props.download && <Download path={props.download} query={{ ...list.filters, ordering: list.ordering }} />}
        </Group>
      </Group>
      {found.isError && <ProblemAlert error={found.error} onRetry={() => void found.refetch()} />}
      <Unreachable of={unreachable} />
      {found.isPending && (
        <Center p="xl">
          <Loader aria-label={t("state.loading")} />
        </Center>
      )}
      {found.isSuccess && (
        <TableView
          label={label}
          rows={rows}
          columns={columns}
          hidden={list.hidden}
          rowKey={props.rowKey}
          ordering={list.ordering}
          fallback={props.ordering ?? ""}
          onOrder={list.setOrdering}
          selection={props.selection}
          opening={props.opening}
          hasMore={hasMore}
          onNearEnd={loadMore}
          listKey={listKey}
        />
      )}
      {/* Not before the rows are there: it would move with them. */}
      {!found.isPending && (
        <Group justify="space-between" mt="xs" gap="xs">
          <Text size="sm" c="dimmed" aria-live="polite" data-rows={rows.length}>
            {t(hasMore ? "table.rows_so_far" : isPart ? "table.rows_of_page" : "table.rows", {
              count: rows.length,
              shown: numbers.count(rows.length, language),
            })}
            {isFull && ` · ${t("table.too_many", { max: numbers.count(ROWS_MAX, language) })}`}
          </Text>
          <Group gap="xs">
            <PageSize size={list.size} onChange={list.setSize} />
            {!isAll && <Pager cursor={list.cursor} previous={first?.previous} next={first?.next} onGo={list.goTo} />}
          </Group>
        </Group>
      )}
    </div>
  );
}
