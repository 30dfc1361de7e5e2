import { explained, type GroupState } from "@/features/groups/state";
import { perSection } from "@/live/perSection";

/** What needs a look first. */
export const ORDER: readonly GroupState[] = ["stopped", "growing", "unknown", "draining", "paused", "caught_up"];

/**
 * Groups by state; groups of subjects that the system made for itself (retries, `%…`) are none. The same section, the
 * same object.
 */
export const counted = perSection((entries): Readonly<Record<GroupState, number>> => {
  const found = Object.fromEntries(ORDER.map((state) => [state, 0])) as Record<GroupState, number>;
  for (const entry of Object.values(entries)) {
    if (typeof entry.subject === "string" && !entry.subject.startsWith("%")) found[explained(entry).state] += 1;
  }
  return found;
});
