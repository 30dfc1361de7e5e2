import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";
import { historyOptions, type HistoryOf } from "@/api/history";
import { feedAt } from "@/live/feeds";
import { appended, joined, NO_SERIES, type Series } from "@/live/series";
import { seriesOf } from "@/live/timeline";

/**
 * Between two live points. The numbers beside a chart change each second; to draw an hour again as often is most of a
 * page's work.
 */
const POINT_SECONDS = 5;

/** Where the numbers of one thing are found live: `lagPath({ subject })`, "subjects", its name. */
export interface LivePlace {
  path: string;
  section: string;
  key: string;
}

/**
 * The last hour's numbers of one thing, continued live: a page opens with a filled chart. What is not in the history
 * (Redis was unavailable) begins when the page is opened. `of` and `fields` have to stay the same objects.
 */
export function useTimeline(
  of: HistoryOf,
  { path, section, key }: LivePlace,
  fields: readonly string[],
): Series & { isPending: boolean } {
  const { data, isPending } = useQuery(historyOptions(of));
  const live = useSeries(path, section, key, fields);
  const history = useMemo(() => seriesOf(data), [data]);
  return useMemo(() => ({ ...joined(history, live, fields), isPending }), [history, live, fields, isPending]);
}

/** The numbers of one live entry since the page was opened. `fields` has to stay the same list. */
function useSeries(path: string, section: string, key: string, fields: readonly string[]): Series {
  const [series, setSeries] = useState<Series>(NO_SERIES);
  useEffect(() => {
    const feed = feedAt(path);
    const take = () => {
      const { at, state, status } = feed.get();
      if (at === null || status.kind !== "live") return;
      const seconds = Math.round(new Date(at).getTime() / 1000);
      setSeries((before) =>
        seconds < (before.at.at(-1) ?? -Infinity) + POINT_SECONDS
          ? before
          : appended(before, seconds, state[section]?.[key], fields),
      );
    };
    const leave = feed.subscribe(take);
    take();
    return () => {
      leave();
      setSeries(NO_SERIES);
    };
  }, [path, section, key, fields]);
  return series;
}
