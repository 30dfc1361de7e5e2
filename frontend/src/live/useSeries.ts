import { useEffect, useState } from "react";
import { feedAt } from "@/live/feed";
import { appended, NO_SERIES, type Series } from "@/live/series";

/** The numbers of one live entry since the page was opened. `fields` has to stay the same list. */
export function useSeries(path: string, section: string, key: string, fields: readonly string[]): Series {
  const [series, setSeries] = useState<Series>(NO_SERIES);
  useEffect(() => {
    const feed = feedAt(path);
    const take = () => {
      const { at, state, status } = feed.get();
      if (at === null || status.kind !== "live") return;
      const seconds = Math.round(new Date(at).getTime() / 1000);
      setSeries((before) => appended(before, seconds, state[section]?.[key], fields));
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
