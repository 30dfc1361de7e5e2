import type uPlot from "uplot";
import type { Marker } from "@/ui/chart/types";

/** Markers that a chart draws; of more, the newest. */
export const MARKERS_MAX = 60;

/** Markers within what a chart shows, oldest first. Pure. */
export function markersBetween(markers: readonly Marker[], first: number, last: number): readonly Marker[] {
  return markers
    .filter(({ at }) => at >= first && at <= last)
    .sort((a, b) => a.at - b.at)
    .slice(-MARKERS_MAX);
}

/**
 * Draws markers over a chart: a thin line with a symbol that says on hover what happened. Called whenever uPlot draws,
 * so that they follow the zoom. Pointers reach the chart through the line.
 */
export function drawMarkers(plot: uPlot, markers: readonly Marker[]): void {
  plot.over.querySelectorAll(".chart-marker").forEach((element) => element.remove());
  const { min, max } = plot.scales.x ?? {};
  if (typeof min !== "number" || typeof max !== "number") return;
  for (const { at, label, symbol, tone } of markersBetween(markers, min, max)) {
    const line = document.createElement("div");
    line.className = "chart-marker";
    line.dataset.tone = tone;
    line.style.left = `${Math.round(plot.valToPos(at, "x"))}px`;
    const sign = document.createElement("span");
    sign.textContent = symbol;
    sign.dataset.hint = label;
    line.append(sign);
    plot.over.append(line);
  }
}
