import type { Entry } from "@/live/applyDelta";
import { measured, type Reading } from "@/live/useLive";

/**
 * The lag of a subject's consumer group that is furthest behind, and which that is; a lower bound while one of its
 * groups is not measured completely.
 */
export interface WorstLag extends Reading {
  group: string | undefined;
}

/** From a live entry of the section `subjects`; `noGroup` is the reason where there is no group. */
export function worstLag(entry: Entry | undefined, noGroup: string): WorstLag {
  const { reason, ...reading } = measured(entry, "highest_lag");
  const atLeast = entry?.at_least as Entry | undefined;
  const group = entry?.highest_lag_group ?? atLeast?.highest_lag_group;
  return {
    ...reading,
    last: undefined,
    reason: entry && reading.value === null && !reason ? noGroup : (reason ?? null),
    group: typeof group === "string" ? group : undefined,
  };
}
