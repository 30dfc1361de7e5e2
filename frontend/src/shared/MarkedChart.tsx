import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { markersOptions, MARKER_KINDS, type About } from "@/api/events";
import { textOf } from "@/format/values";
import { TimeChart } from "@/ui/chart/TimeChart";
import type { Marker, TimeChartProps } from "@/ui/chart/types";
import { usePreferences } from "@/ui/preferences";

const SYMBOLS: Readonly<Record<(typeof MARKER_KINDS)[number], string>> = {
  alert_fired: "!",
  failover: "⇄",
  switch_over: "↔",
  drain: "↧",
  reset: "↺",
  restart: "↻",
};

/** Shorter times are live values that came before the history. */
const HISTORY_SECONDS = 10;

/** A chart over time with markers of what happened to what it is about, for any time span. */
export function MarkedChart({ about, ...chart }: Omit<TimeChartProps, "markers"> & { about: About }) {
  const { t } = useTranslation();
  const { hasMarkers } = usePreferences();
  const [first = 0, last = 0] = [chart.at[0], chart.at.at(-1)];
  const { data } = useQuery({
    ...markersOptions(about, first, last),
    enabled: hasMarkers && last - first >= HISTORY_SECONDS,
  });
  const markers = useMemo(
    () =>
      (data?.results ?? []).flatMap(({ at, kind, severity, target, values }): Marker[] => {
        const known = MARKER_KINDS.find((one) => one === kind);
        if (known === undefined) return [];
        const text = t(`chart.marker.${known}`, { target });
        const [master, previous] = [textOf(values.master), textOf(values.previous)];
        const label = master && previous ? t("chart.marker.masters", { text, previous, master }) : text;
        return [{ at: Date.parse(at) / 1000, label, symbol: SYMBOLS[known], tone: severity }];
      }),
    [data, t],
  );
  return <TimeChart {...chart} markers={markers} />;
}
