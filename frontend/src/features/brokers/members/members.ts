import type { BrokerGroup, BrokerGroupDetail, NodeDetail } from "@/features/brokers/queries";
import { isRecord, numberOf, textOf } from "@/format/values";

export type MemberState = BrokerGroupDetail["member_states"][number];
export type RoleChange = BrokerGroupDetail["role_history"][number];

/**
 * What a dialog changes: the group as it was when the dialog was opened, with its version. The page refreshes
 * meanwhile.
 */
export interface MemberDialog {
  group: BrokerGroupDetail;
  etag: string | null;
  onClose: () => void;
}

/** How many copies of a broker group's messages are complete. */
export interface Copies {
  inSync: number;
  /** Copies that it should have. */
  wanted: number;
  /** Members that have to be in sync so that sends are accepted. */
  minimum: number;
  isBelowMinimum: boolean;
}

/** Return the copies of a broker group; null before its first member has registered. */
export function copiesOf(
  group: Pick<BrokerGroup, "in_sync" | "in_sync_min_in_force" | "members" | "copies">,
): Copies | null {
  const members = group.members.length;
  if (members === 0) return null;
  const inSync = group.in_sync.length;
  const minimum = group.in_sync_min_in_force;
  return { inSync, wanted: Math.max(group.copies, members), minimum, isBelowMinimum: inSync < minimum };
}

const COLOURS = {
  master: "teal",
  in_sync: "teal",
  following: "yellow",
  copying: "blue",
  waiting: "yellow",
  promoted: "blue",
  stepping_down: "blue",
  spare: "gray",
  failed: "red",
  offline: "red",
} as const;

export type MemberRole = keyof typeof COLOURS;

/**
 * Return the role that a node reported, and the color of its badge; `waiting` for a role that this page does not know.
 */
export function roleOf({ role }: MemberState): { role: MemberRole; colour: string } {
  const known = role in COLOURS ? (role as MemberRole) : "waiting";
  return { role: known, colour: COLOURS[known] };
}

/** Progress of a copy, as the copying node reports it. Sizes in bytes. */
export interface CopyProgress {
  /** Between 0 and 1; null before the size is known. */
  share: number | null;
  done: number;
  total: number;
  bytesPerSecond: number;
  /** Null: unknown. */
  secondsLeft: number | null;
}

/** Return the progress of a node's copy from its `GET /stats`; null if it does not copy. */
export function copyProgress(stats: NodeDetail["stats"] | undefined): CopyProgress | null {
  const copy = replicationOf(stats).copy;
  if (!isRecord(copy)) return null;
  const done = numberOf(copy.done_bytes) ?? 0;
  const total = numberOf(copy.total_bytes) ?? 0;
  return {
    share: total > 0 ? Math.min(1, done / total) : null,
    done,
    total,
    bytesPerSecond: numberOf(copy.bytes_per_second) ?? 0,
    secondsLeft: numberOf(copy.seconds_left),
  };
}

function replicationOf(stats: NodeDetail["stats"] | undefined): Readonly<Record<string, unknown>> {
  return isRecord(stats?.replication) ? stats.replication : {};
}

/** Return the master that serves now, if the heartbeats of one arrive. */
export function servingMaster(states: readonly MemberState[]): MemberState | undefined {
  return states.find(({ is_master, role }) => is_master && role === "master");
}

/** Return the slaves that can become the master. */
export function successors(states: readonly MemberState[]): MemberState[] {
  return states.filter(({ is_master, in_sync, problem }) => in_sync && !is_master && problem === "");
}

/** The field of the row that a change is about: the master if it changed, else the set or the list of members. */
const SHOWN = ["master", "in_sync", "members"] as const;

/** Return what changed in a role change, as node IDs before and after. */
export function changed({ before, after }: RoleChange): { from: string; to: string } {
  const [old, now] = [before, after].map((state): Record<string, unknown> => (isRecord(state) ? state : {}));
  const field = SHOWN.find((name) => now?.[name] !== undefined);
  const shown = (value: unknown) => (Array.isArray(value) ? value.join(", ") : textOf(value)) || "—";
  return field ? { from: shown(old?.[field]), to: shown(now?.[field]) } : { from: "—", to: "—" };
}
