import { perSection } from "@/live/perSection";
import { measured, type Reading } from "@/live/useLive";

/**
 * The consumer group of a subject with the highest lag; a lower bound while one of its groups is not measured
 * completely.
 */
export interface WorstLag extends Reading {
  group: string;
}

function lowerBound({ value, atLeast }: Reading): number {
  return value ?? atLeast ?? -1;
}

function higher(one: WorstLag, other: WorstLag): WorstLag {
  const worst = lowerBound(other) > lowerBound(one) ? other : one;
  const incomplete = [one, other].find(({ value }) => value === null);
  if (!incomplete) return worst;
  const atLeast = lowerBound(worst);
  return { ...incomplete, group: worst.group, atLeast: atLeast < 0 ? undefined : atLeast };
}

/** By subject, from the live section `groups`. */
export const worstLags = perSection((groups): ReadonlyMap<string, WorstLag> => {
  const worst = new Map<string, WorstLag>();
  for (const [key, entry] of Object.entries(groups)) {
    const [subject = "", group = ""] = key.split("\n");
    const one = { ...measured(entry, "lag"), last: undefined, group };
    const before = worst.get(subject);
    worst.set(subject, before ? higher(before, one) : one);
  }
  return worst;
});
