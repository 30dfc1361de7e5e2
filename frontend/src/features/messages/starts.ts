import type { Search } from "@/ui/links/urlState";

/** Where a list of messages begins: at the newest or oldest one, or from a time, a sequence, or with an ID. */
export const STARTS = ["newest", "oldest", "time", "sequence", "id"] as const;
export type Start = (typeof STARTS)[number];
/** Those that need a value. */
export const FROM_STARTS = ["time", "sequence", "id"] as const;

/** The start that the address names. Pure. */
export function startOf(search: Search): Start {
  return STARTS.find((one) => one === search.by) ?? "newest";
}

export function isFrom(start: Start): boolean {
  return start !== "newest" && start !== "oldest";
}

/** The API's `order`; of messages with an ID there is one only. Pure. */
export function orderOf(start: Start): "newest" | "oldest" | undefined {
  if (start === "id") return undefined;
  return start === "newest" ? "newest" : "oldest";
}

/** The address's parameters for another start: what belonged to the one before goes. Pure. */
export function goTo(start: Start, search: Search, groups: readonly string[]): Record<string, string | undefined> {
  return {
    by: start === "newest" ? undefined : start,
    from_time: undefined,
    sequence: undefined,
    message_id: undefined,
    cursor: undefined,
    // Each broker group counts its own sequences: where there is one only it is meant.
    broker_group: start === "sequence" ? (search.broker_group ?? groups[0]) : search.broker_group,
  };
}
