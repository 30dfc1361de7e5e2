import "@/features/analytics/analytics.css";
import { Text } from "@mantine/core";
import { useMemo } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import type { Ranking } from "@/features/analytics/queries";
import { Figure, Name } from "@/features/analytics/RowsOfPart";
import { formatOf, gridOf, textIn } from "@/features/analytics/series";
import type { Part } from "@/features/analytics/views";
import { Sparkline } from "@/ui/chart/Sparkline";
import { Instant } from "@/ui/measure/Instant";
import { Measured } from "@/ui/measure/Measured";
import { PlainTable } from "@/ui/table/PlainTable";
import { defineColumns, headers } from "@/ui/table/define";
import { useUrlState } from "@/ui/links/urlState";

type Ranked = Ranking["results"][number];

/** One row for each subject, group or node: how its number developed, its highest value, and its latest numbers. */
export function RankingOfPart({ part, ranking }: { part: Part; ranking: Ranking }) {
  const { t } = useTranslation("analytics");
  const [search] = useUrlState();
  const ranked = part.rank.replace("-", "");
  const grid = useMemo(
    () => gridOf(Date.parse(ranking.from_at) / 1000, Date.parse(ranking.to_at) / 1000, ranking.step_seconds),
    [ranking],
  );
  const columns = useMemo(
    () =>
      defineColumns<Ranked>(headers(t), (column) => [
        ...part.names.map((name, index) =>
          column(name, { isFixed: index === 0 }, ({ row }) => (
            <Name row={row} name={name} part={part} search={search} />
          )),
        ),
        column("history", { header: t(`column.${ranked}`) }, ({ history }) => (
          <div className="ranking-history">
            <Sparkline values={onGrid(history, grid)} />
          </div>
        )),
        column(
          "extreme",
          { header: t(part.rank.startsWith("-") ? "ranking.highest" : "ranking.lowest"), align: "right" },
          ({ row, extreme }) => {
            if (extreme === null) return <Figure row={row} name={ranked} />;
            const { as, scale } = formatOf(ranked);
            return <Measured value={extreme * scale} as={as} />;
          },
        ),
        ...part.columns
          .filter((name) => name !== "method")
          .map((name) => column(name, { align: "right" }, ({ row }) => <Figure row={row} name={name} />)),
        column("at", { header: t("ranking.at") }, ({ row }) => <Instant at={textIn(row, "at")} relative />),
      ]),
    [part, ranked, grid, search, t],
  );
  if (ranking.results.length === 0) {
    return ranking.state === "filled" ? <Text c="dimmed">{t("ranking.nothing")}</Text> : null;
  }
  return (
    <div data-ranking={part.id}>
      <PlainTable
        label={t(`part.${part.id}`)}
        columns={columns}
        rows={ranking.results}
        rowKey={({ row }) => part.names.map((name) => textIn(row, name)).join(" ")}
        minWidth={760}
      />
      {ranking.total > ranking.results.length && (
        <Text size="sm" c="dimmed">
          {t("ranking.cut", { shown: ranking.results.length, count: ranking.total })}
        </Text>
      )}
    </div>
  );
}

/** The values at the steps of a range; null where there is no row. Pure. */
export function onGrid(history: Ranked["history"], grid: readonly number[]): (number | null)[] {
  const known = new Map(history.map(({ at, value }) => [Date.parse(at) / 1000, value]));
  return grid.map((at) => known.get(at) ?? null);
}
