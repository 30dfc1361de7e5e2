import type { Search } from "@/ui/links/urlState";

/** What a search looks for. */
export interface Criteria {
  /** Words, `name=value`, or an expression (docs/reference/filters.md). */
  filter: string;
  /** Instants; "" for none. */
  from: string;
  to: string;
  brokerGroup: string;
}

/** Criteria as the address has them; null when none was asked for yet. Pure. */
export function criteriaOf(search: Search): Criteria | null {
  const filter = (search.filter ?? "").trim();
  if (!filter) return null;
  return { filter, from: search.after ?? "", to: search.before ?? "", brokerGroup: search.broker_group ?? "" };
}

/** The address's parameters for criteria. */
export function searchOf({ filter, from, to, brokerGroup }: Criteria): Record<string, string | undefined> {
  return {
    filter: filter.trim() || undefined,
    after: from || undefined,
    before: to || undefined,
    broker_group: brokerGroup || undefined,
  };
}

/** The API's parameters for criteria, of a search and of its export. */
export function queryOf({ filter, from, to, brokerGroup }: Criteria): Record<string, string> {
  const all = { filter, from_time: from, to_time: to, broker_group: brokerGroup };
  return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== ""));
}

/** What of a message a filter can search. */
const PARTS = ["properties", "body", "tags"] as const;

/** The parts that a filter does not name; none when it names none: then it searches other things. Pure. */
export function notSearched(searched: readonly string[]): readonly (typeof PARTS)[number][] {
  return searched.some((one) => (PARTS as readonly string[]).includes(one))
    ? PARTS.filter((part) => !searched.includes(part))
    : [];
}
