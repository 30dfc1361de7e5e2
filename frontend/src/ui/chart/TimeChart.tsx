import { Skeleton } from "@mantine/core";
import { lazy, Suspense } from "react";
import type { Format } from "@/ui/Measured";

export interface Series {
  label: string;
  /** As many as there are instants; null where it could not be measured: a gap, never zero. */
  values: readonly (number | null)[];
  as?: Format;
  /** Series of different units get an axis of their own, left and right; two at most. */
  axis?: "left" | "right";
  style?: "line" | "area" | "bars";
  colour?: ChartColour;
}

/** A band between two series: a forecast's interval, what was expected. */
export interface Band {
  low: readonly (number | null)[];
  high: readonly (number | null)[];
  label: string;
  colour?: ChartColour;
}

export type ChartColour = "blue" | "teal" | "orange" | "red" | "grape" | "gray" | "cyan" | "lime";

export interface TimeChartProps {
  /** What it shows, for people who can't see it. */
  label: string;
  /** Instants in seconds since 1970, ascending. */
  at: readonly number[];
  series: readonly Series[];
  bands?: readonly Band[];
  height?: number;
}

// The drawing library is a chunk of its own: no first load waits for it.
const Drawn = lazy(() => import("@/ui/chart/Drawn"));

/** A chart over time: drag to zoom, double-click to see all again; times in the viewer's zone, UTC at the pointer. */
export function TimeChart(props: TimeChartProps) {
  const height = props.height ?? 220;
  return (
    <Suspense fallback={<Skeleton height={height} />}>
      <Drawn {...props} height={height} />
    </Suspense>
  );
}
