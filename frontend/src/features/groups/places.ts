import type { Member, Place } from "@/features/groups/queries";

/** How much of what is stored the group has passed, 0 to 1; null when it is not known. Nothing stored is all passed. */
export function shareDone(place: Pick<Place, "begin_sequence" | "next_sequence" | "end_sequence">): number | null {
  const { begin_sequence: begin, next_sequence: next, end_sequence: end } = place;
  if (begin === null || next === null || end === null) return null;
  const stored = BigInt(end) - BigInt(begin);
  if (stored <= 0n) return 1;
  const passed = BigInt(next) - BigInt(begin);
  // Before the begin: retention was faster than the group.
  return passed <= 0n ? 0 : Math.min(1, Number((passed * 10_000n) / stored) / 10_000);
}

export interface Range {
  begin: string;
  /** The last sequence that belongs to it. */
  last: string;
  consumer: string;
}

/**
 * What consumers hold on a broker group, the oldest first, and how many ranges there are in all: of each the oldest few
 * are named.
 */
export function heldOn(members: readonly Member[], brokerGroup: string): { ranges: Range[]; total: number } {
  const here = members.filter((member) => member.broker_group === brokerGroup);
  const ranges = here.flatMap((member) =>
    member.in_flight_ranges.map(([begin = "0", end = "0"]): Range => ({
      begin,
      last: (BigInt(end) - 1n).toString(),
      consumer: member.consumer_id,
    })),
  );
  ranges.sort((one, other) => Number(BigInt(one.begin) - BigInt(other.begin)));
  return { ranges, total: here.reduce((sum, member) => sum + member.in_flight_ranges_total, 0) };
}
