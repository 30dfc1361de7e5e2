import { Checkbox } from "@mantine/core";
import { IconArrowDown, IconArrowUp, IconSelector } from "@tabler/icons-react";
import { useMemo } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import type { Column, Selection } from "@/ui/table/types";
import { Table } from "@/ui/table/Table";
import { nextOrdering, reversed } from "@/ui/table/useListState";

/** A column's name; a button where the list can be ordered by it. */
export function Header<Row>({
  column,
  ordering = "",
  fallback = "",
  onOrder,
}: {
  column: Column<Row>;
  ordering?: string | undefined;
  /** The order without one chosen. */
  fallback?: string | undefined;
  /** Without it the list has one order. */
  onOrder?: ((ordering: string) => void) | undefined;
}) {
  const { sort } = column;
  if (!sort || !onOrder) return <Table.Th ta={column.align}>{column.header}</Table.Th>;
  const field = sort.startsWith("-") ? reversed(sort) : sort;
  const direction = ordering === field ? "ascending" : ordering === `-${field}` ? "descending" : "none";
  const Icon = direction === "ascending" ? IconArrowUp : direction === "descending" ? IconArrowDown : IconSelector;
  return (
    <Table.Th ta={column.align} aria-sort={direction}>
      <button
        type="button"
        className="sort"
        onClick={() => onOrder(nextOrdering(ordering, sort, fallback))}
        data-sort={field}
      >
        {column.header} <Icon size={14} aria-hidden />
      </button>
    </Table.Th>
  );
}

/** Chooses all rows that are there, or none. */
export function SelectAll<Row>({
  rows,
  rowKey,
  selection,
}: {
  rows: readonly Row[];
  rowKey: (row: Row) => string;
  selection: Selection<Row>;
}) {
  const { t } = useTranslation();
  const { selected, isDisabled, onChange } = selection;
  const choosable = useMemo(() => rows.filter((row) => !isDisabled?.(row)).map(rowKey), [rows, rowKey, isDisabled]);
  const chosen = selected.size === 0 ? 0 : choosable.filter((key) => selected.has(key)).length;
  return (
    <Table.Th w={40} className="select-all">
      <Checkbox
        aria-label={t("table.select_all")}
        checked={choosable.length > 0 && chosen === choosable.length}
        indeterminate={chosen > 0 && chosen < choosable.length}
        onChange={(event) => onChange(new Set(event.currentTarget.checked ? choosable : []))}
      />
    </Table.Th>
  );
}
