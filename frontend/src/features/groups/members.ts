import type { Detail, Member } from "@/features/groups/queries";

/** A consumer over all broker groups that it reads from. */
export interface Consumer {
  id: string;
  isPaused: boolean;
  /** False for one that is paused and that no broker knows. */
  isKnown: boolean;
  isOnline: boolean;
  address: string | null;
  /** Connections of several processes that use its ID at the same time; empty: one process. */
  duplicateAddresses: readonly string[];
  /** Seconds; null: not seen since the nodes started. */
  lastSeen: number | null;
  inFlight: number;
  /** For how long it has held messages and acknowledged none, on the broker group where that is longest. */
  unackedSeconds: number;
  parts: readonly Member[];
}

/** The lowest or highest of what is known; null when nothing is. */
function known(values: readonly (number | null)[], pick: (...values: number[]) => number): number | null {
  const found = values.filter((value) => value !== null);
  return found.length > 0 ? pick(...found) : null;
}

/** Online consumers first, then by id, so that rows keep their places; paused ones that are not members come last. */
export function consumersOf({
  members,
  paused_consumers: paused,
}: Pick<Detail, "members" | "paused_consumers">): Consumer[] {
  const parts = new Map<string, Member[]>(paused.map((id) => [id, []]));
  for (const member of members) {
    const of = parts.get(member.consumer_id);
    if (of) of.push(member);
    else parts.set(member.consumer_id, [member]);
  }
  const found = [...parts].map(([id, of]): Consumer => ({
    id,
    isPaused: of.length === 0 || of.some((part) => part.is_paused),
    isKnown: of.length > 0,
    isOnline: of.some((part) => part.online),
    address: of.find((part) => part.address !== null)?.address ?? null,
    duplicateAddresses: [...new Set(of.flatMap((part) => part.duplicate_addresses))].sort(),
    lastSeen: known(
      of.map((part) => part.last_seen_seconds),
      Math.min,
    ),
    inFlight: of.reduce((sum, part) => sum + part.in_flight, 0),
    unackedSeconds: Math.max(0, ...of.map((part) => part.unacked_seconds)),
    parts: of,
  }));
  const rank = (one: Consumer) => (one.isOnline ? 0 : one.isKnown ? 1 : 2);
  return found.sort((one, other) => rank(one) - rank(other) || one.id.localeCompare(other.id));
}

/** What every member had been given and had acked at a moment, by broker group and consumer. */
export interface Counts {
  atMs: number;
  of: ReadonlyMap<string, { pulled: bigint; acked: bigint }>;
}

function keyOf(member: Pick<Member, "broker_group" | "consumer_id">): string {
  return `${member.broker_group}\n${member.consumer_id}`;
}

export function countsOf(members: readonly Member[], atMs: number): Counts {
  return {
    atMs,
    of: new Map(members.map((one) => [keyOf(one), { pulled: BigInt(one.pulled), acked: BigInt(one.acked) }])),
  };
}

/** Moments that rates are made of: about ten seconds of them. */
export const SAMPLES_MAX = 5;

/** A consumer's messages a second between two moments; null when one of its parts was missing at one, or restarted. */
export function ratesOf(
  parts: readonly Member[],
  first: Counts | undefined,
  last: Counts | undefined,
): { pulled: number | null; acked: number | null } {
  const nothing = { pulled: null, acked: null };
  if (!first || !last || last.atMs <= first.atMs || parts.length === 0) return nothing;
  let pulled = 0n;
  let acked = 0n;
  for (const part of parts) {
    const before = first.of.get(keyOf(part));
    const now = last.of.get(keyOf(part));
    if (!before || !now || now.pulled < before.pulled || now.acked < before.acked) return nothing;
    pulled += now.pulled - before.pulled;
    acked += now.acked - before.acked;
  }
  const seconds = (last.atMs - first.atMs) / 1000;
  return { pulled: Number(pulled) / seconds, acked: Number(acked) / seconds };
}
