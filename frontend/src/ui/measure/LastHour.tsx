import { Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo, type ReactNode } from "react";
import { lastHourOptions, type HistoryOf } from "@/api/history";
import { seriesOfLines, type Line } from "@/ui/measure/lines";
import { useSentence } from "@/i18n/useSentence";
import type { Series } from "@/ui/chart/types";
import { QueryProblem } from "@/ui/page/loaded";

/** Charts of the last hour, each of some lines; the reason instead when nothing was measured. */
export function LastHour({
  of,
  charts,
  labelOf,
  children,
}: {
  of: HistoryOf;
  charts: readonly (readonly Line[])[];
  labelOf: (field: string) => string;
  children: (at: readonly number[], charts: readonly (readonly Series[])[], isPending: boolean) => ReactNode;
}) {
  const query = useQuery(lastHourOptions(of));
  const { data } = query;
  const reasonOf = useSentence();
  const at = useMemo(() => (data?.at ?? []).map((instant) => Date.parse(instant) / 1000), [data]);
  const drawn = useMemo(
    () => charts.map((lines) => seriesOfLines(lines, { at, values: data?.fields ?? {} }, labelOf)),
    [data, at, charts, labelOf],
  );
  return (
    <>
      <QueryProblem of={query} />
      {data?.reason && <Text c="dimmed">{reasonOf(data.reason)}</Text>}
      {!data?.reason && !query.error && children(at, drawn, !data)}
    </>
  );
}
