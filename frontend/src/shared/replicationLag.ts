import { textOf } from "@/format/values";
import type { Section } from "@/live/applyDelta";
import { measured, type Reading } from "@/live/useLive";

/** How far a slave is behind its master, in bytes. */
export interface ReplicationLag {
  node: string;
  lag: Reading;
}

/**
 * Of a broker group's slaves the one that is furthest behind, from the live nodes; one whose lag is not known comes
 * first. Null: it has no slaves.
 */
export function worstReplicationLag(nodes: Section, group: string): ReplicationLag | null {
  const found = Object.values(nodes)
    .filter((entry) => entry.broker_group === group && entry.is_master === false)
    .map((entry) => ({ node: textOf(entry.node_id), lag: measured(entry, "replication_lag_bytes") }));
  const place = ({ lag }: ReplicationLag) => lag.value ?? Infinity;
  return found.sort((a, b) => place(b) - place(a) || a.node.localeCompare(b.node))[0] ?? null;
}
