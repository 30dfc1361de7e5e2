import { useMemo } from "react";
import { HistoryCharts } from "@/features/brokers/HistoryCharts";
import type { Range } from "@/shared/ranges/range";
import { RangeNote } from "@/shared/ranges/RangeNote";
import { useRangeHistory } from "@/shared/ranges/useRangeHistory";
import { seriesOfLines, type Line } from "@/ui/measure/lines";
import { QueryProblem } from "@/ui/page/loaded";

/** A broker group's numbers of more than the last hour. */
export function LongHistory({
  name,
  range,
  charts,
  labelOf,
}: {
  name: string;
  range: Range;
  charts: readonly (readonly Line[])[];
  labelOf: (field: string) => string;
}) {
  const of = useMemo(() => ({ broker_group: name }), [name]);
  const { series, query, data, border } = useRangeHistory(of, range);
  const drawn = useMemo(() => charts.map((lines) => seriesOfLines(lines, series, labelOf)), [charts, series, labelOf]);
  const names = Object.fromEntries(charts.flat().map(([field]) => [field, labelOf(field)]));
  return (
    <>
      <QueryProblem of={query} />
      <HistoryCharts name={name} at={series.at} charts={drawn} isPending={query.isPending} border={border} isWhole />
      <RangeNote data={data} lines={names} />
    </>
  );
}
