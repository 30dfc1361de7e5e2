import type { Entry, LiveState } from "@/live/applyDelta";

/** A number of all delay groups together, or null with the first reason why there is none. */
export interface Total {
  value: number | null;
  reason: string | null;
}

function fold(nodes: readonly Entry[], field: string, join: (a: number, b: number) => number): Total {
  let value: number | null = null;
  for (const node of nodes) {
    const known = node[field];
    // One that is not known makes the sum unknown: the rest of it would look like all.
    if (typeof known !== "number") return { value: null, reason: typeof node.reason === "string" ? node.reason : null };
    value = value === null ? known : join(value, known);
  }
  return { value, reason: null };
}

/** What the delay groups' masters (`nodes`) report of themselves, summed; the lateness is that of the latest. */
export function delayHealth(state: LiveState) {
  const nodes = Object.values(state.nodes ?? {}).filter((node) => node.kind !== "broker" && node.is_master === true);
  const sum = (a: number, b: number) => a + b;
  return {
    nodes,
    pending: fold(nodes, "pending", sum),
    overdue: fold(nodes, "overdue", sum),
    putAside: fold(nodes, "put_aside", sum),
    deliveredPerSecond: fold(nodes, "delivered_per_second", sum),
    latenessP99: fold(nodes, "lateness_p99_seconds", Math.max),
  };
}
