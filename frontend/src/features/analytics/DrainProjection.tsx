import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { projected } from "@/features/analytics/projection";
import { seriesOptions, type Row, type TableQuery } from "@/features/analytics/queries";
import { gridOf, lineOf, numberIn } from "@/features/analytics/series";
import { TimeChart } from "@/ui/chart/TimeChart";
import { QueryProblem } from "@/ui/page/loaded";

/** The lag of one consumer group, continued by its latest forecast as a band. */
export function DrainProjection({ forecasts, group }: { forecasts: readonly Row[]; group: TableQuery }) {
  const { t } = useTranslation("analytics");
  const lag = useQuery(seriesOptions("lag", group));
  const latest = forecasts.at(-1);
  const drawn = useMemo(() => {
    const found = lag.data;
    if (!found || !latest) return undefined;
    const grid = gridOf(Date.parse(found.from_at) / 1000, Date.parse(found.to_at) / 1000, found.step_seconds);
    const line = lineOf(found.results, grid, "lag_messages_last", 1);
    const [low, mid, high] = (["low", "mid", "high"] as const).map((bound) =>
      numberIn(latest, `drain_seconds_${bound}`),
    );
    return projected(grid, line, found.step_seconds, { low: low ?? null, mid: mid ?? null, high: high ?? null });
  }, [lag.data, latest]);
  return (
    <>
      <QueryProblem of={lag} />
      <TimeChart
        label={t("chart.projection")}
        at={drawn?.at ?? []}
        series={[
          {
            label: t("column.lag_messages_last"),
            values: drawn?.lag ?? [],
            as: "count",
            style: "area",
            colour: "blue",
          },
          { label: t("projection.expected"), values: drawn?.expected ?? [], as: "count", colour: "orange" },
        ]}
        bands={[{ label: t("interval"), low: drawn?.low ?? [], high: drawn?.high ?? [], colour: "orange" }]}
        isPending={lag.isPending}
        isWhole
      />
    </>
  );
}
