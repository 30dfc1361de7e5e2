import { Badge } from "@mantine/core";
import { useMemo } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { isLearning, meaningOfNull } from "@/features/analytics/forecasts";
import { analyticsKey, loadRows, type TableQuery, type Row } from "@/features/analytics/queries";
import { formatOf, numberIn, textIn } from "@/features/analytics/series";
import { choicesOf, type Part } from "@/features/analytics/views";
import { Instant } from "@/ui/measure/Instant";
import { LinkTo } from "@/ui/links/LinkTo";
import { Measured } from "@/ui/measure/Measured";
import { DataTable } from "@/ui/table/DataTable";
import { defineColumns, headers } from "@/ui/table/define";
import { useUrlState } from "@/ui/links/urlState";
import { Sent } from "@/ui/Sent";

const ANOMALY = new Set(["value", "expected", "expected_low", "expected_high"]);
const OUTLOOK_COLOURS: Readonly<Record<string, string>> = {
  expected: "blue",
  possible: "yellow",
  never: "red",
  unknown: "gray",
};
const SIZE = "50";

/** The rows of what is chosen. Downloads hold them. */
export function RowsOfPart({ part, selection }: { part: Part; selection: TableQuery }) {
  const { t } = useTranslation("analytics");
  const [search] = useUrlState();
  const load = useMemo(() => loadRows(part.table, selection), [part, selection]);
  const columns = useMemo(() => {
    const all = [...part.names, ...part.columns, ...(part.hidden ?? [])];
    return defineColumns<Row>(headers(t), (column) => [
      column("at", { sort: true, isFixed: true }, (row) => <Instant at={textIn(row, "at")} />),
      ...all.map((name) => {
        const isText = part.names.includes(name) || name === "method";
        return column(
          name,
          { sort: true, align: isText ? "left" : "right", isHiddenAtFirst: part.hidden?.includes(name) },
          (row) =>
            isText ? <Name row={row} name={name} part={part} search={search} /> : <Figure row={row} name={name} />,
        );
      }),
    ]);
  }, [part, search, t]);
  const query = Object.entries(selection).map(([name, value]): [string, string] => [name, String(value)]);
  return (
    <DataTable
      label={t(`part.${part.id}`)}
      queryKey={[...analyticsKey, "rows", part.table, selection]}
      load={load}
      columns={columns}
      rowKey={(row) => ["at", ...part.names].map((name) => textIn(row, name)).join(" ")}
      ordering={part.rank}
      size={SIZE}
      prefix={`${part.id}_`}
      download={`/api/v1/analytics/tables/${part.table}/?${new URLSearchParams(query).toString()}`}
    />
  );
}

/** A number of a row. */
export function Figure({ row, name }: { row: Row; name: string }) {
  const { as, scale } = formatOf(ANOMALY.has(name) ? textIn(row, "metric") : name);
  const { t } = useTranslation("analytics");
  const value = numberIn(row, name);
  const meaning = meaningOfNull(row, name);
  return (
    <Measured value={value === null ? null : value * scale} as={as} unknown={meaning && t(`null_means.${meaning}`)} />
  );
}

/** What a row is of; the first name draws it. */
export function Name({
  row,
  name,
  part,
  search,
}: {
  row: Row;
  name: string;
  part: Part;
  search: Readonly<Record<string, string>>;
}) {
  const { t } = useTranslation("analytics");
  const value = textIn(row, name);
  if (name === "outlook") {
    if (isLearning(row)) {
      return (
        <Badge variant="light" tt="none" color="gray" tabIndex={0} data-hint={t(`learning.${part.id}`)}>
          {t("learning.label")}
        </Badge>
      );
    }
    return (
      <Badge variant="light" tt="none" color={OUTLOOK_COLOURS[value] ?? "gray"}>
        {t(`outlook.${value}`)}
      </Badge>
    );
  }
  if (name === "metric") return t(`metric.${value}`);
  if (name === "case_class") return <span className="nowrap">{t(`case_class.${value}`)}</span>;
  if (name === "method") return <Sent text={value} />;
  // The first name of a row chooses all that its line is of.
  const choices = choicesOf(part);
  if (name !== choices[0]) return value || "—";
  const chosen = Object.fromEntries(choices.map((choice) => [choice, textIn(row, choice)]));
  return (
    <LinkTo to="/analytics" search={{ ...search, ...chosen }} title={t("draw")}>
      {value}
    </LinkTo>
  );
}
