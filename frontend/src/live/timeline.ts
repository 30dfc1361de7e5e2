import type { History } from "@/api/history";
import { NO_SERIES, type Series } from "@/live/series";

/** A history as charts take it, from the first measured point on: an unknown time before it is not drawn as empty. */
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

/** A field of another series at the instants of this one; null where the other has no such instant. */
export function fieldAt(at: readonly number[], other: Series, field: string): (number | null)[] {
  const values = other.values[field] ?? [];
  const places = new Map(other.at.map((seconds, index) => [seconds, index]));
  return at.map((seconds) => {
    const index = places.get(seconds);
    return index === undefined ? null : (values[index] ?? null);
  });
}

/** The sum of two fields; null where one of them is. */
export function sumOf(series: Series, one: string, other: string): (number | null)[] {
  const others = series.values[other] ?? [];
  return (series.values[one] ?? []).map((value, index) => {
    const second = others[index];
    return value === null || typeof second !== "number" ? null : value + second;
  });
}
