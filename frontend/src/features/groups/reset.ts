import type { Schema } from "@/api/client";
import type { Place, ResetDone, ResetRequest } from "@/features/groups/queries";

/** Where a group can be set. */
export const PLACES = ["earliest", "latest", "time", "positions", "group"] as const;
/** Where a new group can start; `consumer`: its first consumer decides. */
export const STARTS = ["consumer", ...PLACES] as const;
export type To = (typeof STARTS)[number];

/** What the fields of a place hold, as typed. */
export interface PlaceFields {
  to: To;
  time: string | null;
  /** Sequences by broker group; "" leaves a broker group as it is. */
  positions: Readonly<Record<string, string>>;
  fromGroup: string;
  /** "": all of them. */
  brokerGroup: string;
}

export const NO_PLACE: PlaceFields = { to: "earliest", time: null, positions: {}, fromGroup: "", brokerGroup: "" };

const SEQUENCE = /^[0-9]{1,18}$/;

/** The request that the fields mean; null while something is missing or wrong. */
export function resetRequest({ to, time, positions, fromGroup, brokerGroup }: PlaceFields): ResetRequest | null {
  const of = brokerGroup ? { broker_group: brokerGroup } : {};
  switch (to) {
    case "time":
      return time === null ? null : { to, time, ...of };
    case "positions": {
      const given = Object.entries(positions).filter(([, sequence]) => sequence !== "");
      const isRight = given.length > 0 && given.every(([, sequence]) => SEQUENCE.test(sequence));
      return isRight ? { to, positions: Object.fromEntries(given) } : null;
    }
    case "group":
      return fromGroup ? { to, from_group: fromGroup, ...of } : null;
    case "consumer":
      return null;
    default:
      return { to, ...of };
  }
}

/** What the fields mean in the request of a new group; null while something is missing or wrong. */
export function startRequest(fields: PlaceFields): Omit<Schema<"NewGroupRequest">, "subject" | "name"> | null {
  if (fields.to === "consumer") return {};
  const request = resetRequest(fields);
  if (request === null) return null;
  const { to: start, ...place } = request;
  return { start, ...place };
}

/** What is wrong with a sequence, as a key; null: nothing. `place`: the broker group it is of. */
export function sequenceProblem(
  sequence: string,
  place: Pick<Place, "begin_sequence" | "end_sequence"> | undefined,
): "digits" | "outside" | null {
  if (!sequence) return null;
  if (!SEQUENCE.test(sequence)) return "digits";
  const { begin_sequence: begin = null, end_sequence: end = null } = place ?? {};
  if (begin === null || end === null) return null;
  const wanted = BigInt(sequence);
  return wanted < BigInt(begin) || wanted > BigInt(end) ? "outside" : null;
}

type Number = "skipped" | "repeated" | "in_flight" | "pending";

/** A preview in numbers, over all broker groups; null where one of them did not say. */
export function totals(preview: Pick<ResetDone, "broker_groups">): Record<Number, number | null> {
  const sum = (field: Number) =>
    preview.broker_groups.reduce<number | null>((total, one) => {
      const value = one[field];
      return total === null || value === null ? null : total + value;
    }, 0);
  return { skipped: sum("skipped"), repeated: sum("repeated"), in_flight: sum("in_flight"), pending: sum("pending") };
}

/** Whether a reset moved a position that can be restored. */
export function isUndoable({ before, after }: Record<"before" | "after", Readonly<Record<string, string>>>): boolean {
  return Object.entries(before).some(([name, position]) => after[name] !== position);
}
