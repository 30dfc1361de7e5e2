import type { ReactNode } from "react";
import type { Direction } from "@/ui/dates/presets";

export interface Column<Row> {
  id: string;
  header: string;
  cell: (row: Row) => ReactNode;
  /** The API's ordering field; without it the column can't be sorted. With "-" the first click sorts descending. */
  sort?: string;
  align?: "left" | "right";
  /** Shown only when chosen. */
  isHiddenAtFirst?: boolean;
  /** Can't be hidden: the row's name. */
  isFixed?: boolean;
  /**
   * On a phone a row is a card: its name, its state beside it, lines below them, facts with their names, and buttons.
   * Where no column says what it is, the first four are facts.
   */
  card?: "state" | "line" | "fact" | "action";
}

/** Which rows are chosen, by their keys. */
export interface Selection<Row> {
  selected: ReadonlySet<string>;
  onChange: (selected: ReadonlySet<string>) => void;
  /** Rows that can't be chosen. */
  isDisabled?: (row: Row) => boolean;
}

/** Rows that open: what is done with the key of one, and the key of the one that is open. */
export interface Opening {
  onOpen: (key: string) => void;
  opened?: string | undefined;
}

/** A filter of a list; `name` is the API's parameter and the address's. */
export type Filter =
  | { kind: "search"; name: string; label: string }
  | { kind: "select"; name: string; label: string; options: readonly { value: string; label: string }[] }
  | { kind: "text"; name: string; label: string; placeholder?: string }
  | { kind: "instant"; name: string; label: string; direction: Direction }
  /** An input of the page's own. */
  | {
      kind: "own";
      name: string;
      label: string;
      input: (value: string, onChange: (value: string | undefined) => void) => ReactNode;
    };

/** A page as lists of the API answer it. */
export interface ListPage<Row> {
  results: readonly Row[];
  next: string | null;
  previous?: string | null;
  /** Broker groups that could not be asked, and why: what they hold is missing. */
  unreachable?: Readonly<Record<string, string>>;
}

export type ListQuery = Readonly<Record<string, string | undefined>>;
export type Load<Row> = (query: ListQuery, signal: AbortSignal) => Promise<ListPage<Row>>;

export const PAGE_SIZES = ["50", "100", "200", "500"] as const;
/** Instead of a page: the whole list, read in pieces while it is scrolled. */
export const ALL = "all";
export const SIZE_OF_A_PIECE = "500";
/** Rows that a scrolled list holds at most; past it the filter has to be narrowed, or the list downloaded. */
export const ROWS_MAX = 20_000;
