import type { Schema } from "@/api/client";
import { numberOf } from "@/format/values";
import type { Entry } from "@/live/applyDelta";

export type GroupState = Schema<"LagState">;

const STATES: readonly GroupState[] = ["caught_up", "idle", "draining", "growing", "stopped", "paused", "unknown"];

/**
 * The state that the collector decided (it is the one that the list is filtered by), and the sentence that explains it:
 * a key below `why.` with the numbers that it names. Causes are on the group's page (`diagnosis.ts`).
 */
export function explained(numbers: Entry | undefined) {
  const state = STATES.find((known) => known === numbers?.state) ?? "unknown";
  const found = {
    state,
    lag: numberOf(numbers?.lag),
    seconds: numberOf(state === "draining" ? numbers?.drain_seconds : numbers?.time_lag_seconds),
    rate: numberOf(numbers?.ack_rate),
    consumers: numberOf(numbers?.consumers_online),
  };
  return { ...found, why: whyOf(found) };
}

interface Found {
  state: GroupState;
  lag: number | null;
  consumers: number | null;
}

function whyOf({ state, lag, consumers }: Found): string {
  switch (state) {
    case "caught_up":
      return lag ? "caught_up" : "caught_up_idle";
    case "paused":
      return lag ? "paused" : "paused_idle";
    case "stopped":
      return consumers === 0 ? "stopped_alone" : "stopped";
    default:
      return state;
  }
}
