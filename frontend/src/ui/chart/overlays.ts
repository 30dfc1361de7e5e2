import type uPlot from "uplot";
import { grouped, markersBetween } from "@/ui/chart/markers";
import { sharedLines } from "@/ui/chart/thresholds";
import type { Marker, Threshold } from "@/ui/chart/types";

/** Between the labels of thresholds that are above what the chart shows. */
const LINE_PX = 15;

export interface Overlays {
  markers: readonly Marker[];
  thresholds: readonly Threshold[];
  border: Marker | undefined;
}

/**
 * Draws over a chart: markers (a thin line with a symbol that says on hover what happened), the border, and thresholds.
 * Called whenever uPlot draws, so that they follow the zoom. Pointers reach the chart through the lines.
 */
export function drawOverlays(plot: uPlot, { markers, thresholds, border }: Overlays): void {
  plot.over.querySelectorAll(".chart-marker, .chart-threshold").forEach((element) => element.remove());
  const { min, max } = plot.scales.x ?? {};
  if (typeof min !== "number" || typeof max !== "number") return;
  const pixelOf = (seconds: number) => plot.valToPos(seconds, "x");
  for (const marker of grouped(markersBetween(markers, min, max), pixelOf)) addMarker(plot, marker);
  if (border && border.at >= min && border.at <= max) {
    addMarker(plot, { ...border, left: Math.round(pixelOf(border.at)) }).classList.add("chart-border");
  }
  addThresholds(plot, sharedLines(thresholds));
}

function addMarker(plot: uPlot, { label, symbol, tone, left }: Marker & { left: number }): HTMLElement {
  const line = document.createElement("div");
  line.className = "chart-marker";
  line.dataset.tone = tone;
  line.style.left = `${left}px`;
  const sign = document.createElement("span");
  sign.textContent = symbol;
  sign.dataset.hint = label;
  line.append(sign);
  plot.over.append(line);
  return line;
}

/** Those above what the chart shows have no line, but their names with an arrow at the upper edge. */
function addThresholds(plot: uPlot, thresholds: readonly Threshold[]): void {
  let above = 0;
  for (const { value, label, axis, tone } of thresholds) {
    const { min, max } = plot.scales[axis] ?? {};
    if (typeof min !== "number" || typeof max !== "number" || value < min) continue;
    const isAbove = value > max;
    const line = document.createElement("div");
    line.className = "chart-threshold";
    line.dataset.tone = tone;
    line.dataset.place = isAbove ? "above" : axis;
    line.style.top = `${isAbove ? LINE_PX * above++ : Math.round(plot.valToPos(value, axis))}px`;
    const name = document.createElement("span");
    name.textContent = isAbove ? `↑ ${label}` : label;
    line.append(name);
    plot.over.append(line);
  }
}
