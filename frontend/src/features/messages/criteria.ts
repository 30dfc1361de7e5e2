import type { Search } from "@/ui/links/urlState";

/** What a search looks for. */
export interface Criteria {
  /** `name=value` each. */
  properties: readonly string[];
  tag: string;
  /** Instants; "" for none. */
  from: string;
  to: string;
  brokerGroup: string;
}

// What was typed into a field of one line holds no line end, so one can stand between two.
const BETWEEN = "\n";

/** Criteria as the address has them; null when none was asked for yet. Pure. */
export function criteriaOf(search: Search): Criteria | null {
  const properties = (search.match ?? "").split(BETWEEN).filter(Boolean);
  const tag = search.tag ?? "";
  if (properties.length === 0 && !tag) return null;
  return {
    properties,
    tag,
    from: search.after ?? "",
    to: search.before ?? "",
    brokerGroup: search.broker_group ?? "",
  };
}

/** The address's parameters for criteria. */
export function searchOf({ properties, tag, from, to, brokerGroup }: Criteria): Record<string, string | undefined> {
  return {
    match: properties.join(BETWEEN) || undefined,
    tag: tag || undefined,
    after: from || undefined,
    before: to || undefined,
    broker_group: brokerGroup || undefined,
  };
}

/** Whether a text is `name=value`; the value may be empty, the name may not. */
export function isPair(text: string): boolean {
  return text.indexOf("=") > 0;
}
