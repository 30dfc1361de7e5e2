import { explained, type GroupState } from "@/features/groups/state";
import { perSection } from "@/live/perSection";

/** What needs a look first. */
export const ORDER: readonly GroupState[] = ["stopped", "growing", "unknown", "draining", "paused", "caught_up"];

/** Groups by state; groups of subjects that the system made for itself (retries, `%…`) are none. The same section, the same object. */
export const counted = perSection((entries): Readonly<Record<GroupState, number>> => {
  const found: Record<GroupState, number> = {
    stopped: 0,
    growing: 0,
    unknown: 0,
    draining: 0,
    paused: 0,
    caught_up: 0,
  };
  for (const entry of Object.values(entries)) {
    if (typeof entry.subject === "string" && !entry.subject.startsWith("%")) found[explained(entry).state] += 1;
  }
  return found;
});
