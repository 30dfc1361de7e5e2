import { useCallback, useMemo } from "react";
import type { Column, Filter, ListQuery } from "@/ui/table/types";
import { ALL, PAGE_SIZES, SIZE_OF_A_PIECE } from "@/ui/table/types";
import { useUrlState, type Search } from "@/ui/links/urlState";

export interface ListState {
  /** Filters as the address has them. */
  filters: Search;
  ordering: string;
  cursor: string | undefined;
  size: string;
  hidden: ReadonlySet<string>;
  /** What goes to the API. */
  query: ListQuery;
  setFilter: (name: string, value: string | undefined) => void;
  clearFilters: () => void;
  setOrdering: (ordering: string) => void;
  goTo: (cursor: string | undefined) => void;
  setSize: (size: string) => void;
  setHidden: (hidden: ReadonlySet<string>) => void;
}

/** The state of a list, kept in the address; `prefix` separates two lists of one page. A change starts at page one. */
export function useListState<Row>(
  columns: readonly Column<Row>[],
  filters: readonly Filter[],
  defaults: { ordering?: string; size?: string; prefix?: string },
): ListState {
  const [search, change] = useUrlState();
  const prefix = defaults.prefix ?? "";
  const at = useCallback((name: string) => prefix + name, [prefix]);
  const cursor = search[at("cursor")];
  const wanted = search[at("limit")] ?? defaults.size ?? PAGE_SIZES[0];
  const size = wanted === ALL || (PAGE_SIZES as readonly string[]).includes(wanted) ? wanted : PAGE_SIZES[0];
  const ordering = search[at("ordering")] ?? defaults.ordering ?? "";
  const chosen: Search = useMemo(
    () =>
      Object.fromEntries(
        filters.flatMap(({ name }) => {
          const value = search[at(name)];
          return value ? [[name, value]] : [];
        }),
      ),
    [search, filters, at],
  );
  const hiddenText = search[at("hidden")];
  const hidden: ReadonlySet<string> = useMemo(
    () =>
      hiddenText === undefined
        ? new Set(columns.filter((column) => column.isHiddenAtFirst).map((column) => column.id))
        : new Set(hiddenText.split(",")),
    [hiddenText, columns],
  );
  const query = useMemo(
    () => ({
      ...chosen,
      ordering: ordering || undefined,
      limit: size === ALL ? SIZE_OF_A_PIECE : size,
    }),
    [chosen, ordering, size],
  );
  return {
    filters: chosen,
    ordering,
    cursor: size === ALL ? undefined : cursor,
    size,
    hidden,
    query,
    setFilter: (name, value) => change({ [at(name)]: value, [at("cursor")]: undefined }),
    clearFilters: () =>
      change({ ...Object.fromEntries(filters.map(({ name }) => [at(name), undefined])), [at("cursor")]: undefined }),
    setOrdering: (next) => change({ [at("ordering")]: next, [at("cursor")]: undefined }),
    goTo: (next) => change({ [at("cursor")]: next }, true),
    setSize: (next) => change({ [at("limit")]: next, [at("cursor")]: undefined }),
    // "-" stands for none: an absent parameter means the list's own choice.
    setHidden: (next) => change({ [at("hidden")]: [...next].join(",") || "-" }),
  };
}

/** An ordering in the other direction. */
export function reversed(ordering: string): string {
  return ordering.startsWith("-") ? ordering.slice(1) : `-${ordering}`;
}

/** The ordering after a click on a column: by its field, in the other direction, as it was. */
export function nextOrdering(now: string, sort: string, fallback: string): string {
  if (now === sort) return reversed(sort);
  if (now === reversed(sort)) return fallback;
  return sort;
}
