import "@/ui/chart/chart.css";
import { ActionIcon, Center, Skeleton, Text } from "@mantine/core";
import { IconChartLine, IconFlag, IconFlagOff, IconTable } from "@tabler/icons-react";
import { lazy, Suspense, useMemo, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { NumbersTable } from "@/ui/chart/NumbersTable";
import type { Marker, TimeChartProps } from "@/ui/chart/types";
import { usePreferences } from "@/ui/preferences";

// The drawing library is a chunk of its own: no first load waits for it.
const Drawn = lazy(() => import("@/ui/chart/Drawn"));
const HEIGHT_PX = 220;
/** The line below a chart that says what its lines are. */
const LEGEND_PX = 23;
const NO_MARKERS: readonly Marker[] = [];

/** Whether there is anything to draw. Pure. */
function isMeasured({ at, series, bands = [] }: Pick<TimeChartProps, "at" | "series" | "bands">): boolean {
  const lines = [...series.map(({ values }) => values), ...bands.map(({ low }) => low)];
  return at.some((_, index) => lines.some((values) => typeof values[index] === "number"));
}

/**
 * What a chart shows: it begins where something was measured first, as on a system that is younger than the time asked
 * for. Pure.
 */
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
 * A chart over time: drag to zoom, double-click to see all again, both by keyboard too; times in the viewer's zone, UTC
 * at the pointer. Its numbers can be read as a table. Its frame has the same height before there are numbers.
 */
export function TimeChart(given: TimeChartProps) {
  const { t } = useTranslation();
  const { at, series, bands, isWhole = false } = given;
  const shown = useMemo(() => {
    const all = { at, series, bands };
    return isWhole ? all : begun(all);
  }, [at, series, bands, isWhole]);
  const { hasMarkers, setMarkers } = usePreferences();
  const props = { ...given, ...shown, markers: hasMarkers ? given.markers : NO_MARKERS };
  const [isTable, setTable] = useState(false);
  const height = props.height ?? HEIGHT_PX;
  // What is below does not move when the numbers come.
  const room = { minHeight: height + LEGEND_PX };
  if (!isMeasured(shown)) {
    return (
      <div className="chart-frame" style={room} data-chart={props.isPending ? "pending" : "empty"}>
        {props.isPending ? (
          <Skeleton height={height} />
        ) : (
          <Center h={height} className="chart-empty">
            <Text c="dimmed" size="sm">
              {t("chart.nothing_yet")}
            </Text>
          </Center>
        )}
      </div>
    );
  }
  const Icon = isTable ? IconChartLine : IconTable;
  const other = t(isTable ? "chart.as_chart" : "chart.as_table");
  return (
    <div className="chart-frame" style={room} data-chart={isTable ? "table" : "drawn"}>
      {isTable ? (
        <NumbersTable {...props} height={height} />
      ) : (
        <Suspense fallback={<Skeleton height={height} />}>
          <Drawn {...props} height={height} />
        </Suspense>
      )}
      {given.markers && (
        <ActionIcon
          data-hint={t(hasMarkers ? "chart.hide_markers" : "chart.show_markers")}
          className="chart-switch chart-marker-switch"
          variant="subtle"
          color="gray"
          size={24}
          aria-label={`${t("chart.markers")}: ${props.label}`}
          aria-pressed={hasMarkers}
          onClick={() => setMarkers(!hasMarkers)}
        >
          {hasMarkers ? <IconFlag size={16} aria-hidden /> : <IconFlagOff size={16} aria-hidden />}
        </ActionIcon>
      )}
      <ActionIcon
        data-hint={other}
        className="chart-switch"
        variant="subtle"
        color="gray"
        size={24}
        aria-label={`${other}: ${props.label}`}
        onClick={() => setTable(!isTable)}
      >
        <Icon size={16} aria-hidden />
      </ActionIcon>
    </div>
  );
}
