import { Stack, Text, Title } from "@mantine/core";
import { useMemo, type ComponentProps } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import type { Row, Rows } from "@/features/analytics/queries";
import { countsMessages, formatOf, gridOf, lineOf, splitOf, textIn } from "@/features/analytics/series";
import type { Chart, Part, Split } from "@/features/analytics/views";
import { TimeChart } from "@/ui/chart/TimeChart";
import type { Band, Series } from "@/ui/chart/types";

const NO_ROWS: readonly Row[] = [];

/** The charts of a table's rows; their frames while these are read. */
export function Charts({
  part,
  found,
}: {
  part: Part;
  found: (Pick<Rows, "from_at" | "to_at" | "step_seconds"> & { results: readonly Row[] }) | undefined;
}) {
  const { t } = useTranslation("analytics");
  const rows = found?.results ?? NO_ROWS;
  const grid = useMemo(
    () => (found ? gridOf(Date.parse(found.from_at) / 1000, Date.parse(found.to_at) / 1000, found.step_seconds) : []),
    [found],
  );
  const isPending = found === undefined;
  if (!isPending && rows.length === 0) return <Text c="dimmed">{t("no_rows")}</Text>;
  return (
    <Stack gap="md">
      {Object.entries(part.charts ?? {}).map(([title, chart]) => (
        <Lines key={title} title={title} chart={chart} rows={rows} grid={grid} isPending={isPending} />
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

function Lines({ title, chart, rows, grid, isPending }: Drawn & { title: string; chart: Chart }) {
  const { t } = useTranslation("analytics");
  const series = useMemo<Series[]>(
    () =>
      Object.entries(chart.lines).map(([column, line]) => {
        const { as, scale } = formatIn(rows, column);
        const unit = countsMessages(column) ? t("axis.messages") : undefined;
        return { ...line, label: t(`column.${column}`), as, unit, values: lineOf(rows, grid, column, scale) };
      }),
    [chart, rows, grid, t],
  );
  const bands = useMemo<Band[]>(() => {
    if (!chart.band) return [];
    const of = (column: string) => lineOf(rows, grid, column, formatIn(rows, column).scale);
    return [{ label: t("interval"), low: of(`${chart.band}_low`), high: of(`${chart.band}_high`) }];
  }, [chart, rows, grid, t]);
  return <Titled title={title} at={grid} series={series} bands={bands} isPending={isPending} />;
}

function SplitLines({ split, rows, grid, isPending }: Drawn & { split: Split }) {
  const { t } = useTranslation("analytics");
  const series = useMemo<Series[]>(() => {
    const { as } = formatOf(split.column);
    const unit = countsMessages(split.column) ? t("axis.messages") : undefined;
    return splitOf(rows, grid, split.by, split.column).map(({ name, values }) => ({
      label: name === null ? t("others") : name || t("nobody"),
      as,
      unit,
      values,
    }));
  }, [split, rows, grid, t]);
  return <Titled title={split.title} at={grid} series={series} isPending={isPending} />;
}

function Titled({ title, ...chart }: { title: string } & Omit<ComponentProps<typeof TimeChart>, "label">) {
  const { t } = useTranslation("analytics");
  return (
    <div>
      <Title order={3} size="h6" mb={4}>
        {t(`chart.${title}`)}
      </Title>
      <TimeChart label={t(`chart.${title}`)} {...chart} isWhole />
    </div>
  );
}
