import { Stack, Text, Title } from "@mantine/core";
import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import type { Row } from "@/features/analytics/queries";
import { formatOf, gridOf, lineOf, splitOf, textIn } from "@/features/analytics/series";
import type { Chart, Part, Split } from "@/features/analytics/views";
import { TimeChart, type Band, type Series } from "@/ui/chart/TimeChart";

const NO_ROWS: readonly Row[] = [];

/** The charts of a table's rows; their frames while these are read. */
export function Charts({
  part,
  found,
}: {
  part: Part;
  found: { results: readonly Row[]; step_seconds: number } | undefined;
}) {
  const { t } = useTranslation("analytics");
  const rows = found?.results ?? NO_ROWS;
  const grid = useMemo(() => (found ? gridOf(found.results, found.step_seconds) : []), [found]);
  const isPending = found === undefined;
  if (!isPending && grid.length === 0) return <Text c="dimmed">{t("no_rows")}</Text>;
  // A line takes two: a first forecast, say, has no history yet.
  if (grid.length === 1) return <Text c="dimmed">{t("one_step")}</Text>;
  return (
    <Stack gap="md">
      {part.charts?.map((chart) => (
        <Lines key={chart.title} chart={chart} rows={rows} grid={grid} isPending={isPending} />
      ))}
      {part.split && <SplitLines split={part.split} rows={rows} grid={grid} isPending={isPending} />}
    </Stack>
  );
}

/** A column's format; that of an anomaly's numbers is in the name of what was compared. */
function formatIn(rows: readonly Row[], column: string): ReturnType<typeof formatOf> {
  const metric = rows[0] ? textIn(rows[0], "metric") : "";
  return formatOf(metric || column);
}

interface Drawn {
  rows: readonly Row[];
  grid: readonly number[];
  isPending: boolean;
}

function Lines({ chart, rows, grid, isPending }: Drawn & { chart: Chart }) {
  const { t } = useTranslation("analytics");
  const series = useMemo<Series[]>(
    () =>
      chart.lines.map(({ column, ...line }) => {
        const { as, scale } = formatIn(rows, column);
        return { ...line, label: t(`column.${column}`), as, values: lineOf(rows, grid, column, scale) };
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
      <TimeChart label={t(`chart.${chart.title}`)} at={grid} series={series} bands={bands} isPending={isPending} />
    </div>
  );
}

function SplitLines({ split, rows, grid, isPending }: Drawn & { split: Split }) {
  const { t } = useTranslation("analytics");
  const series = useMemo<Series[]>(() => {
    const { as } = formatOf(split.column);
    return splitOf(rows, grid, split.by, split.column).map(({ name, values }) => ({
      label: name === null ? t("others") : name || t("nobody"),
      as,
      values,
      style: split.style ?? "line",
    }));
  }, [split, rows, grid, t]);
  return (
    <div>
      <Title order={3} size="h6" mb={4}>
        {t(`chart.${split.title}`)}
      </Title>
      <TimeChart label={t(`chart.${split.title}`)} at={grid} series={series} isPending={isPending} />
    </div>
  );
}
