import type { Schema } from "@/api/client";

export type GroupState = Schema<"LagState">;

/** The numbers that a state is made of, of a row of the list or of a live entry; null: not measured. */
export interface GroupNumbers {
  state?: unknown;
  reason?: unknown;
  lag?: unknown;
  time_lag_seconds?: unknown;
  ack_rate?: unknown;
  consumers_online?: unknown;
  drain_seconds?: unknown;
  is_paused?: unknown;
}

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

function number(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}

/** The state that the collector decided (it is the one that the list is filtered by), and the sentence that explains it. */
export function explained(numbers: GroupNumbers | undefined): Explained {
  const state = STATES.find((known) => known === numbers?.state) ?? "unknown";
  const found = {
    state,
    lag: number(numbers?.lag),
    seconds: number(state === "draining" ? numbers?.drain_seconds : numbers?.time_lag_seconds),
    rate: number(numbers?.ack_rate),
    consumers: number(numbers?.consumers_online),
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
