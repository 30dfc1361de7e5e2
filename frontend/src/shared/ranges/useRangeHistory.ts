import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { rangeHistoryOptions, type History, type HistoryOf } from "@/api/history";
import { dateTime, duration } from "@/format/times";
import { NO_SERIES, type Series } from "@/live/series";
import { continued } from "@/shared/ranges/merge";
import { isLive, type Range } from "@/shared/ranges/range";
import type { Marker } from "@/ui/chart/types";
import { useLanguage, useZone } from "@/ui/preferences";

/** The numbers of a range, continued by what is seen live where the range is short. */
export function useRangeHistory(of: HistoryOf, range: Range, live: Series = NO_SERIES) {
  const query = useQuery({
    ...rangeHistoryOptions(of, range.seconds, range.span),
    placeholderData: keepPreviousData,
  });
  const { data } = query;
  const long = useMemo<Series>(
    () => (data ? { at: data.at.map((at) => Date.parse(at) / 1000), values: data.fields } : NO_SERIES),
    [data],
  );
  const series = useMemo(() => (isLive(range) ? continued(long, live) : long), [range, long, live]);
  return { series, query, data, border: useBorder(data) };
}

/** The line where measurements begin; its tooltip describes the values to the left. */
function useBorder(data: History | undefined): Marker | undefined {
  const { t } = useTranslation("ranges");
  const [language, zone] = [useLanguage(), useZone()];
  const { step_seconds: stepSeconds, as_of: asOf, job } = data?.summary ?? {};
  const at = data?.border_at;
  return useMemo(() => {
    if (!at || !stepSeconds || !asOf || !job) return undefined;
    const values = { step: duration(stepSeconds, language), as_of: dateTime(asOf, zone).slice(0, 16) };
    return { at: Date.parse(at) / 1000, label: t(`by.${job}.border`, values), symbol: "◂", tone: "info" };
  }, [at, stepSeconds, asOf, job, language, zone, t]);
}
