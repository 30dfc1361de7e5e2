import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { historyOptions, type HistoryOf } from "@/api/history";
import { joined, type Series } from "@/live/series";
import { seriesOf } from "@/live/timeline";
import { useSeries } from "@/live/useSeries";

/** Where the numbers of one thing are found live: `lagPath({ subject })`, "subjects", its name. */
export interface LivePlace {
  path: string;
  section: string;
  key: string;
}

/**
 * The last hour's numbers of one thing, going on live: a page opens with a filled chart. What is not in the history (Redis was away)
 * begins when the page is opened. `of` and `fields` have to stay the same objects.
 */
export function useTimeline(of: HistoryOf, { path, section, key }: LivePlace, fields: readonly string[]): Series {
  const { data } = useQuery(historyOptions(of));
  const live = useSeries(path, section, key, fields);
  const history = useMemo(() => seriesOf(data), [data]);
  return useMemo(() => joined(history, live, fields), [history, live, fields]);
}
