import type { Schema } from "@/api/client";
import { numberOf } from "@/format/values";
import type { Entry } from "@/live/applyDelta";

export type GroupState = Schema<"LagState">;

const STATES: readonly GroupState[] = ["caught_up", "draining", "growing", "stopped", "paused", "unknown"];

/**
 * The state that the collector decided (it is the one that the list is filtered by), and the sentence that explains it:
 * a key below `why.` with the numbers that it names. `subject`: the numbers of its subject, for how many consumers
 * would be enough.
 */
export function explained(numbers: Entry | undefined, subject?: Entry) {
  const state = STATES.find((known) => known === numbers?.state) ?? "unknown";
  const found = {
    state,
    lag: numberOf(numbers?.lag),
    seconds: numberOf(state === "draining" ? numbers?.drain_seconds : numbers?.time_lag_seconds),
    rate: numberOf(numbers?.ack_rate),
    consumers: numberOf(numbers?.consumers_online),
    arriving: numberOf(subject?.send_rate),
  };
  const needed = consumersNeeded(found);
  return { ...found, needed, why: state === "growing" && needed !== null ? "growing_needs" : whyOf(found) };
}

interface Found {
  state: GroupState;
  lag: number | null;
  rate: number | null;
  arriving: number | null;
  consumers: number | null;
}

/** Consumers that would acknowledge as much as arrives, each at the speed of the present ones; null: unknown. */
function consumersNeeded({ arriving, rate, consumers }: Pick<Found, "arriving" | "rate" | "consumers">): number | null {
  if (!arriving || !rate || !consumers || arriving <= rate) return null;
  return Math.max(consumers + 1, Math.ceil((consumers * arriving) / rate));
}

function whyOf({ state, lag, consumers }: Pick<Found, "state" | "lag" | "consumers">): string {
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
