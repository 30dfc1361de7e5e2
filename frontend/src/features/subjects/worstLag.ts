import { perSection } from "@/live/perSection";

/** The consumer group of a subject that is furthest behind. */
export interface WorstLag {
  /** Messages; null: one of its groups could not be measured, so that nobody knows which is furthest behind. */
  lag: number | null;
  reason: string | null;
  group: string;
  groups: number;
}

/** By subject, from the live section `groups`. */
export const worstLags = perSection((groups): ReadonlyMap<string, WorstLag> => {
  const worst = new Map<string, WorstLag>();
  for (const [key, entry] of Object.entries(groups)) {
    const [subject = "", group = ""] = key.split("\n");
    const lag = typeof entry.lag === "number" ? entry.lag : null;
    const before = worst.get(subject);
    const count = (before?.groups ?? 0) + 1;
    if (before && (before.lag === null || (lag !== null && lag <= before.lag))) {
      worst.set(subject, { ...before, groups: count });
    } else {
      const reason = lag === null && typeof entry.reason === "string" ? entry.reason : null;
      worst.set(subject, { lag, reason, group, groups: count });
    }
  }
  return worst;
});
