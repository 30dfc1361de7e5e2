import { useTranslation } from "@/i18n/useTranslation";
import type { Schema } from "@/api/client";
import { percent } from "@/format/numbers";
import { inFull } from "@/ui/chart/words";
import { Measured, type Format } from "@/ui/measure/Measured";
import { Part } from "@/ui/page/Part";
import { useLanguage } from "@/ui/preferences";
import { defineColumns } from "@/ui/table/define";
import { PlainTable } from "@/ui/table/PlainTable";

type Figures = Readonly<Record<string, Schema<"HistoryFigures"> | undefined>>;

const ROWS: readonly [id: string, as: Format, of: (figures: Figures) => number | null | undefined][] = [
  ["lag_mean", "count", ({ lag }) => lag?.mean],
  ["lag_p99", "count", ({ lag }) => lag?.p99],
  ["time_lag_p99", "duration", ({ time_lag_seconds: lag }) => lag?.p99],
  ["send_rate", "rate", ({ send_rate: sent }) => sent?.mean],
  ["ack_rate", "rate", ({ ack_rate: acked }) => acked?.mean],
  ["acked", "count", ({ ack_rate: of }) => (of?.mean == null ? null : Math.round(of.mean * of.measured_seconds))],
];

/** What two spans come to, and by how much the later one differs. */
export function Differences({
  names,
  earlier,
  later,
}: {
  names: Readonly<Record<"earlier" | "later", string>>;
  earlier: Figures;
  later: Figures;
}) {
  const { t } = useTranslation("ranges");
  const language = useLanguage();
  const rows = ROWS.map(([id, as, of]) => ({ id, as, before: of(earlier) ?? null, after: of(later) ?? null }));
  const shown = (value: number | null, as: Format) => <Measured value={value} as={as} reason={t("compare.unknown")} />;
  const headers: Readonly<Record<string, string>> = { before: names.earlier, after: names.later };
  return (
    <Part title={t("compare.differences")} isRegion>
      <PlainTable
        label={t("compare.differences")}
        columns={defineColumns<(typeof rows)[number]>(
          (id) => headers[id] ?? t(`compare.${id}`),
          (column) => [
            column("figure", { isFixed: true }, ({ id }) => t(`compare.row.${id}`)),
            column("before", { align: "right" }, ({ before, as }) => shown(before, as)),
            column("after", { align: "right" }, ({ after, as }) => shown(after, as)),
            column("difference", { align: "right" }, ({ before, after, as }) =>
              before === null || after === null ? shown(null, as) : difference(before, after, as, language),
            ),
          ],
        )}
        rows={rows}
        rowKey={({ id }) => id}
      />
    </Part>
  );
}

/** "+1,200 (+20%)"; without the share where the earlier value is 0. Pure. */
export function difference(before: number, after: number, as: Format, language: string): string {
  const by = after - before;
  const sign = by > 0 ? "+" : by < 0 ? "−" : "";
  const amount = `${sign}${inFull(Math.abs(by), as, language)}`;
  return before > 0 ? `${amount} (${sign}${percent(Math.abs(by) / before, language)})` : amount;
}
