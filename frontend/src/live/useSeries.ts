import { queryOptions, useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";
import { api, must, type Schema } from "@/api/client";
import { feedAt } from "@/live/feed";
import { appended, joined, NO_SERIES, type Series } from "@/live/series";

/** What the collector keeps the last hour of; of nothing: the whole system. */
export interface HistoryOf {
  subject?: string;
  group?: string;
  broker_group?: string;
  node?: string;
}

function historyOptions(of: HistoryOf) {
  return queryOptions({
    queryKey: ["history", of],
    queryFn: ({ signal }) => must(api.GET("/api/v1/history/", { params: { query: of }, signal })),
    // From here on it is followed live; what was missed meanwhile is asked for when the page is opened again.
    staleTime: 60_000,
    refetchInterval: 300_000,
  });
}

function seriesOf(history: Schema<"History"> | undefined): Series {
  if (!history) return NO_SERIES;
  return { at: history.at.map((at) => Math.round(new Date(at).getTime() / 1000)), values: history.fields };
}

/** Where a live entry is: the address of its feed, its section and its key. */
export interface LiveAt {
  path: string;
  section: string;
  key: string;
}

/** The last hour of a live entry's numbers, and what comes. `fields` has to stay the same list. */
export function useSeries(of: HistoryOf, at: LiveAt, fields: readonly string[]): Series {
  const { data } = useQuery(historyOptions(of));
  const live = useSeen(at, fields);
  const history = useMemo(() => seriesOf(data), [data]);
  return useMemo(() => joined(history, live, fields), [history, live, fields]);
}

/** What was seen since the page was opened. */
function useSeen({ path, section, key }: LiveAt, fields: readonly string[]): Series {
  const [seen, setSeen] = useState<Series>(NO_SERIES);
  useEffect(() => {
    const feed = feedAt(path);
    const take = () => {
      const { at, state, status } = feed.get();
      if (at === null || status.kind !== "live") return;
      const seconds = Math.round(new Date(at).getTime() / 1000);
      setSeen((before) => appended(before, seconds, state[section]?.[key], fields));
    };
    const leave = feed.subscribe(take);
    take();
    return () => {
      leave();
      setSeen(NO_SERIES);
    };
  }, [path, section, key, fields]);
  return seen;
}
