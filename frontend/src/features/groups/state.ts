import type { Schema } from "@/api/client";
import { numberOf } from "@/format/values";
import type { Entry } from "@/live/applyDelta";

export type GroupState = Schema<"LagState">;

/** A state, and the sentence that says why: a key below `why.` with the numbers that it names. */
export interface Explained {
  state: GroupState;
  why: string;
  lag: number | null;
  seconds: number | null;
  rate: number | null;
  consumers: number | null;
}

const STATES: readonly GroupState[] = ["caught_up", "draining", "growing", "stopped", "paused", "unknown"];

/** The state that the collector decided (it is the one that the list is filtered by), and the sentence that explains it. */
export function explained(numbers: Entry | undefined): Explained {
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

function whyOf({ state, lag, consumers }: Omit<Explained, "why">): string {
  switch (state) {
    case "caught_up":
      if (lag) return "caught_up";
      return consumers === 0 ? "caught_up_alone" : "caught_up_idle";
    case "paused":
      return lag ? "paused" : "paused_idle";
    case "stopped":
      return consumers === 0 ? "stopped_alone" : "stopped";
    default:
      return state;
  }
}
