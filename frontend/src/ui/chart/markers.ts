import type { Marker } from "@/ui/chart/types";

/** Markers that a chart draws; of more, the newest. */
export const MARKERS_MAX = 500;
/** Nearer markers are one sign with their number. */
export const APART_PX = 18;
/** Markers of a group that its text names; the others are counted. */
export const NAMED_MAX = 4;

const WORST_FIRST: readonly Marker["tone"][] = ["critical", "warning", "info"];

/** Markers within what a chart shows, oldest first. Pure. */
export function markersBetween(markers: readonly Marker[], first: number, last: number): readonly Marker[] {
  return markers
    .filter(({ at }) => at >= first && at <= last)
    .sort((a, b) => a.at - b.at)
    .slice(-MARKERS_MAX);
}

/** Markers with their place, those that would overlap as one: their number, their texts, and the worst tone. Pure. */
export function grouped(
  markers: readonly Marker[],
  pixelOf: (seconds: number) => number,
): readonly (Marker & { left: number })[] {
  const groups: { left: number; of: Marker[] }[] = [];
  for (const marker of markers) {
    const left = Math.round(pixelOf(marker.at));
    const last = groups.at(-1);
    if (last && left - last.left < APART_PX) last.of.push(marker);
    else groups.push({ left, of: [marker] });
  }
  return groups.map(({ left, of }) => {
    const [first] = of as [Marker, ...Marker[]];
    if (of.length === 1) return { ...first, left };
    const others = of.length > NAMED_MAX ? [`+${of.length - NAMED_MAX}`] : [];
    return {
      at: first.at,
      left,
      symbol: String(of.length),
      label: [...of.slice(0, NAMED_MAX).map(({ label }) => label), ...others].join(" · "),
      tone: WORST_FIRST.find((tone) => of.some((one) => one.tone === tone)) ?? "info",
    };
  });
}
