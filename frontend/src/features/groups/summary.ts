import type { GroupState } from "@/features/groups/state";

/** What needs a look first. */
export const ORDER: readonly GroupState[] = [
  "stopped",
  "growing",
  "unknown",
  "draining",
  "paused",
  "idle",
  "caught_up",
];
