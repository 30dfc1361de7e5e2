import type { Place, ResetDone, ResetRequest } from "@/features/groups/queries";

export const PLACES = ["earliest", "latest", "time", "sequence"] as const;
export type To = (typeof PLACES)[number];

/** What the dialog's fields hold, as typed. */
export interface ResetFields {
  to: To;
  time: string | null;
  sequence: string;
  /** "": all of them. */
  brokerGroup: string;
}

const SEQUENCE = /^[0-9]{1,18}$/;

/** The request that the fields mean; null while something is missing or wrong. */
export function resetRequest({ to, time, sequence, brokerGroup }: ResetFields): ResetRequest | null {
  const of = brokerGroup ? { broker_group: brokerGroup } : {};
  if (to === "time") {
    return time === null ? null : { to, time, ...of };
  }
  if (to === "sequence") {
    return SEQUENCE.test(sequence) && brokerGroup ? { to, sequence, ...of } : null;
  }
  return { to, ...of };
}

/** What is wrong with a sequence, as a key; null: nothing. `place`: the broker group it is of. */
export function sequenceProblem(sequence: string, place: Place | undefined): "digits" | "outside" | null {
  if (!sequence) return null;
  if (!SEQUENCE.test(sequence)) return "digits";
  const { begin_sequence: begin = null, end_sequence: end = null } = place ?? {};
  if (begin === null || end === null) return null;
  const wanted = BigInt(sequence);
  return wanted < BigInt(begin) || wanted > BigInt(end) ? "outside" : null;
}

/** A preview in numbers, over all broker groups; null where one of them did not say. */
export function totals(
  preview: Pick<ResetDone, "broker_groups">,
): Record<"skipped" | "repeated" | "in_flight", number | null> {
  const sum = (field: "skipped" | "repeated" | "in_flight") =>
    preview.broker_groups.reduce<number | null>((total, one) => {
      const value = one[field];
      return total === null || value === null ? null : total + value;
    }, 0);
  return { skipped: sum("skipped"), repeated: sum("repeated"), in_flight: sum("in_flight") };
}
