import "@/ui/chart/chart.css";
import { ActionIcon, Center, Skeleton, Text, Tooltip } from "@mantine/core";
import { IconChartLine, IconTable } from "@tabler/icons-react";
import { lazy, Suspense, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { NumbersTable } from "@/ui/chart/NumbersTable";
import type { Format } from "@/ui/Measured";

export interface Series {
  label: string;
  /** As many as there are instants; null where it could not be measured: a gap, never zero. */
  values: readonly (number | null)[];
  as?: Format;
  /** Title of the axis if the names of its lines are too long for it; the format's by default. */
  unit?: string;
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
const HEIGHT_PX = 220;

/** What a chart shows: it begins where something was measured first, as on a system that is younger than the time asked for. Pure. */
export function begun<Chart extends Pick<TimeChartProps, "at" | "series" | "bands">>(chart: Chart): Chart {
  const { at, series, bands = [] } = chart;
  const lines = [...series.map(({ values }) => values), ...bands.map(({ low }) => low)];
  const first = at.findIndex((_, index) => lines.some((values) => typeof values[index] === "number"));
  if (first <= 0) return chart;
  return {
    ...chart,
    at: at.slice(first),
    series: series.map((one) => ({ ...one, values: one.values.slice(first) })),
    bands: bands.map((band) => ({ ...band, low: band.low.slice(first), high: band.high.slice(first) })),
  };
}

/**
 * A chart over time: drag to zoom, double-click to see all again, both by keyboard too; times in the viewer's zone, UTC at the pointer. Its
 * numbers can be read as a table.
 */
export function TimeChart(given: TimeChartProps) {
  const { t } = useTranslation();
  const { at, series, bands } = given;
  const shown = useMemo(() => begun({ at, series, bands }), [at, series, bands]);
  const props = { ...given, ...shown };
  const [isTable, setTable] = useState(false);
  const height = props.height ?? HEIGHT_PX;
  if (props.at.length === 0) {
    return (
      <Center h={height} data-chart="empty">
        <Text c="dimmed" size="sm">
          {t("chart.nothing_yet")}
        </Text>
      </Center>
    );
  }
  const Icon = isTable ? IconChartLine : IconTable;
  const other = t(isTable ? "chart.as_chart" : "chart.as_table");
  return (
    <div className="chart-frame" data-chart={isTable ? "table" : "drawn"}>
      {isTable ? (
        <NumbersTable {...props} height={height} />
      ) : (
        <Suspense fallback={<Skeleton height={height} />}>
          <Drawn {...props} height={height} />
        </Suspense>
      )}
      <Tooltip label={other}>
        <ActionIcon
          className="chart-switch"
          variant="subtle"
          color="gray"
          size={24}
          aria-label={`${other}: ${props.label}`}
          onClick={() => setTable(!isTable)}
        >
          <Icon size={16} aria-hidden />
        </ActionIcon>
      </Tooltip>
    </div>
  );
}
