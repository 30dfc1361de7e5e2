import type { Entry } from "@/live/applyDelta";

/**
 * What an event says. `kind` is a key below `overview:event.`, `change` the value before and after, or the reason
 * alone.
 */
export interface Described {
  kind: string;
  target: string;
  change: readonly string[];
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** An event of the live feed (docs/live.md). Pure. */
export function describe({ kind, target, before, after }: Entry): Described {
  const found = { kind: text(kind), target: text(target) };
  if (kind === "job.late") return { ...found, kind: after === true ? "job.late" : "job.on_time", change: [] };
  // These two report the reason, not a state.
  if (kind === "node.unreachable") return { ...found, change: [text(after)] };
  if (kind === "node.reachable") return { ...found, change: [] };
  return { ...found, change: [text(before) || "none", text(after) || "none"] };
}
