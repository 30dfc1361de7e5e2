import type { History } from "@/api/history";
import { NO_SERIES, type Series } from "@/live/series";

/** A history as charts take it, from the first point on at which anything was measured: what nobody knows is no hour of emptiness. */
export function seriesOf(history: Pick<History, "at" | "fields"> | undefined): Series {
  if (!history) return NO_SERIES;
  const columns = Object.values(history.fields);
  const first = history.at.findIndex((_, index) => columns.some((values) => typeof values[index] === "number"));
  if (first < 0) return NO_SERIES;
  return {
    at: history.at.slice(first).map((at) => Date.parse(at) / 1000),
    values: Object.fromEntries(Object.entries(history.fields).map(([name, values]) => [name, values.slice(first)])),
  };
}
