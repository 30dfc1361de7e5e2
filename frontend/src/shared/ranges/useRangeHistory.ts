import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { rangeHistoryOptions, type HistoryOf } from "@/api/history";
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
function useBorder(data: { border_at: string | null; summary: BorderOf | null } | undefined): Marker | undefined {
  const { t } = useTranslation("ranges");
  const [language, zone] = [useLanguage(), useZone()];
  const [at, stepSeconds, asOf] = [data?.border_at, data?.summary?.step_seconds, data?.summary?.as_of];
  return useMemo(() => {
    if (!at || !stepSeconds || !asOf) return undefined;
    const values = { step: duration(stepSeconds, language), as_of: dateTime(asOf, zone).slice(0, 16) };
    return { at: Date.parse(at) / 1000, label: t("border", values), symbol: "◂", tone: "info" };
  }, [at, stepSeconds, asOf, language, zone, t]);
}

interface BorderOf {
  step_seconds: number;
  as_of: string | null;
}
