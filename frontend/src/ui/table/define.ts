import type { ReactNode } from "react";
import type { Column, Filter } from "@/ui/table/types";

type Cell<Row> = (row: Row) => ReactNode;
/** `sort` true: the API's field has the column's name. */
type Options = Partial<Omit<Column<never>, "id" | "cell" | "sort">> & { sort?: string | true };

interface Define<Row> {
  (id: string, cell: Cell<Row>): Column<Row>;
  (id: string, options: Options, cell: Cell<Row>): Column<Row>;
}

/** Texts of headers where they stand below `column.`. */
export function headers(t: (key: string) => string): (id: string) => string {
  return (id) => t(`column.${id}`);
}

/**
 * Columns whose header is a text of their ID. Columns that are false are left out.
 *
 * `defineColumns<Row>(headers(t), (column) => [column("name", (row) => row.name)])`
 */
export function defineColumns<Row>(
  headerOf: (id: string) => string,
  list: (column: Define<Row>) => readonly (Column<Row> | false)[],
): Column<Row>[] {
  const define = (id: string, ...[first, second]: [Cell<Row>] | [Options, Cell<Row>]): Column<Row> => {
    const { sort, ...options } = typeof first === "function" ? {} : first;
    const cell = typeof first === "function" ? first : (second as Cell<Row>);
    return { header: headerOf(id), ...options, id, cell, ...(sort ? { sort: sort === true ? id : sort } : {}) };
  };
  return list(define).filter((column) => column !== false);
}

type Choice = Extract<Filter, { kind: "select" }>;

/** A filter by one of some values: their texts by value, or a list of values and their text. */
export function choice(name: string, label: string, texts: Readonly<Record<string, string>>): Choice;
export function choice<Value extends string>(
  name: string,
  label: string,
  values: readonly Value[],
  textOf: (value: Value) => string,
): Choice;
export function choice(
  name: string,
  label: string,
  values: readonly string[] | Readonly<Record<string, string>>,
  textOf?: (value: string) => string,
): Choice {
  const texts: [string, string][] =
    Array.isArray(values) && textOf ? values.map((value: string) => [value, textOf(value)]) : Object.entries(values);
  return { kind: "select", name, label, options: texts.map(([value, text]) => ({ value, label: text })) };
}
