import type { Database } from "@/features/outbox/queries";

export type State = "disabled" | "unusable" | "unmeasured" | "unserved" | "failed" | "relayed";

/** What a person should know first of a registered database. Pure. */
export function stateOf(row: Database): State {
  if (!row.is_enabled) return "disabled";
  if (row.error_code !== null) return "unusable";
  if (row.unknown !== null) return "unmeasured";
  if (row.leader === null) return "unserved";
  return row.failed ? "failed" : "relayed";
}

export const COLOURS: Readonly<Record<State, string>> = {
  disabled: "gray",
  unusable: "red",
  unmeasured: "gray",
  unserved: "yellow",
  failed: "orange",
  relayed: "teal",
};
