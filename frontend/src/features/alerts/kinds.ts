import type { AlertKind, Rule } from "@/features/alerts/queries";

/** What rules look at, most asked for first. */
export const KINDS: readonly AlertKind[] = [
  "lag",
  "time_lag",
  "dead_letters",
  "duplicate_ids",
  "group_state",
  "disk",
  "damage",
  "lateness",
  "loop_late",
  "unknown",
];
export const SEVERITIES: readonly Rule["severity"][] = ["critical", "warning"];
