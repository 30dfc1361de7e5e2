import { Stack, Text, Title } from "@mantine/core";
import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import type { Row } from "@/features/analytics/queries";
import { countsMessages, formatOf, gridOf, lineOf, splitOf, textIn } from "@/features/analytics/series";
import type { Chart, Part, Split } from "@/features/analytics/views";
import { TimeChart, type Band, type Series } from "@/ui/chart/TimeChart";

/** The charts of a table's rows. */
export function Charts({ part, rows, stepSeconds }: { part: Part; rows: readonly Row[]; stepSeconds: number }) {
  const { t } = useTranslation("analytics");
  const grid = useMemo(() => gridOf(rows, stepSeconds), [rows, stepSeconds]);
  if (grid.length === 0) return <Text c="dimmed">{t("no_rows")}</Text>;
  // A line takes two: a first forecast, say, has no history yet.
  if (grid.length === 1) return <Text c="dimmed">{t("one_step")}</Text>;
  return (
    <Stack gap="md">
      {part.charts?.map((chart) => (
        <Lines key={chart.title} chart={chart} rows={rows} grid={grid} />
      ))}
      {part.split && <SplitLines split={part.split} rows={rows} grid={grid} />}
    </Stack>
  );
}

/** A column's format; that of an anomaly's numbers is in the name of what was compared. */
function formatIn(rows: readonly Row[], column: string): ReturnType<typeof formatOf> {
  const metric = rows[0] ? textIn(rows[0], "metric") : "";
  return formatOf(metric || column);
}

function Lines({ chart, rows, grid }: { chart: Chart; rows: readonly Row[]; grid: readonly number[] }) {
  const { t } = useTranslation("analytics");
  const series = useMemo<Series[]>(
    () =>
      chart.lines.map(({ column, ...line }) => {
        const { as, scale } = formatIn(rows, column);
        const unit = countsMessages(column) ? t("axis.messages") : undefined;
        return { ...line, label: t(`column.${column}`), as, unit, values: lineOf(rows, grid, column, scale) };
      }),
    [chart, rows, grid, t],
  );
  const bands = useMemo<Band[]>(() => {
    if (!chart.band) return [];
    const { low, high } = chart.band;
    const of = (column: string) => lineOf(rows, grid, column, formatIn(rows, column).scale);
    return [{ label: t("interval"), low: of(low), high: of(high) }];
  }, [chart, rows, grid, t]);
  return (
    <div>
      <Title order={3} size="h6" mb={4}>
        {t(`chart.${chart.title}`)}
      </Title>
      <TimeChart label={t(`chart.${chart.title}`)} at={grid} series={series} bands={bands} />
    </div>
  );
}

function SplitLines({ split, rows, grid }: { split: Split; rows: readonly Row[]; grid: readonly number[] }) {
  const { t } = useTranslation("analytics");
  const series = useMemo<Series[]>(() => {
    const { as } = formatOf(split.column);
    const unit = countsMessages(split.column) ? t("axis.messages") : undefined;
    return splitOf(rows, grid, split.by, split.column).map(({ name, values }) => ({
      label: name === null ? t("others") : name || t("nobody"),
      as,
      unit,
      values,
      style: split.style ?? "line",
    }));
  }, [split, rows, grid, t]);
  return (
    <div>
      <Title order={3} size="h6" mb={4}>
        {t(`chart.${split.title}`)}
      </Title>
      <TimeChart label={t(`chart.${split.title}`)} at={grid} series={series} />
    </div>
  );
}
