import type { Format } from "@/ui/measure/Measured";

export interface Series {
  label: string;
  /** As many as there are instants; null where it could not be measured: a gap, never zero. */
  values: readonly (number | null)[];
  as?: Format;
  /** Title of the axis if the names of its lines are too long for it; the format's by default. */
  unit?: string;
  /** Series of different units get an axis of their own, left and right; two at most. */
  axis?: "left" | "right";
  /** Bars of several series are stacked. */
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

/** Something that happened, as a thin vertical line. */
export interface Marker {
  /** Seconds since 1970. */
  at: number;
  label: string;
  /** One character above the line. */
  symbol: string;
  tone: "critical" | "warning" | "info";
}

/** A limit, as a dashed line across the chart. */
export interface Threshold {
  value: number;
  label: string;
  axis: "left" | "right";
  tone: "critical" | "warning";
}

export interface TimeChartProps {
  /** What it shows, for people who can't see it. */
  label: string;
  /** Instants in seconds since 1970, ascending. */
  at: readonly number[];
  series: readonly Series[];
  bands?: readonly Band[];
  markers?: readonly Marker[];
  thresholds?: readonly Threshold[] | undefined;
  /** Where values begin that come from somewhere else: always drawn, also without markers. */
  border?: Marker | undefined;
  height?: number;
  /** Whether the time before the first measurement is shown, as empty; else the chart begins with it. */
  isWhole?: boolean;
  /** Whether what it shows is still being read. */
  isPending?: boolean;
}
