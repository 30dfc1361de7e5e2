import type { Threshold } from "@/ui/chart/types";

const WORST_FIRST = ["critical", "warning"] as const;

/** Thresholds at one value of an axis as one line with their names, ascending. Pure. */
export function sharedLines(thresholds: readonly Threshold[]): readonly Threshold[] {
  const lines = new Map<string, Threshold[]>();
  for (const one of thresholds) {
    const key = `${one.axis} ${one.value}`;
    lines.set(key, [...(lines.get(key) ?? []), one]);
  }
  return [...lines.values()]
    .map((of): Threshold => {
      const [first] = of as [Threshold, ...Threshold[]];
      const tone = WORST_FIRST.find((each) => of.some((one) => one.tone === each)) ?? "warning";
      return { ...first, label: of.map(({ label }) => label).join(", "), tone };
    })
    .sort((a, b) => a.value - b.value);
}
