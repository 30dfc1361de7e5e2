import type { Entry } from "@/live/applyDelta";

/**
 * Numbers over time as charts take them: instants in seconds since 1970, ascending, and as many values of each field.
 */
export interface Series {
  at: readonly number[];
  values: Readonly<Record<string, readonly (number | null)[]>>;
}

export const NO_SERIES: Series = { at: [], values: {} };
/** Points that a page keeps: the newest, an hour of them at one a second. */
export const POINTS_MAX = 3_600;
/** Between points further apart than this a gap is drawn: nothing was measured. History has a point in ten seconds. */
const GAP_SECONDS = 15;

function valueOf(entry: Entry | undefined, field: string): number | null {
  const value = entry?.[field];
  return typeof value === "number" ? value : null;
}

/**
 * The series with one more point, and a gap before it when the last one is long ago; an instant that is there stays as
 * it is.
 */
export function appended(
  series: Series,
  at: number,
  entry: Entry | undefined,
  fields: readonly string[],
  pointsMax = POINTS_MAX,
): Series {
  if (at <= (series.at.at(-1) ?? -Infinity)) return series;
  const point = { at: [at], values: Object.fromEntries(fields.map((field) => [field, [valueOf(entry, field)]])) };
  const all = joined(series, point, fields);
  const newest = Object.entries(all.values).map(([field, values]) => [field, values.slice(-pointsMax)]);
  return { at: all.at.slice(-pointsMax), values: Object.fromEntries(newest) as Series["values"] };
}

/** History, and behind it what was seen live since. */
export function joined(history: Series, live: Series, fields: readonly string[]): Series {
  const last = history.at.at(-1) ?? -Infinity;
  const from = live.at.findIndex((at) => at > last);
  if (from < 0) return history;
  const start = live.at[from] ?? 0;
  const gap = history.at.length > 0 && start - last > GAP_SECONDS ? [last + 1] : [];
  return {
    at: [...history.at, ...gap, ...live.at.slice(from)],
    values: Object.fromEntries(
      fields.map((field) => [
        field,
        [
          ...(history.values[field] ?? history.at.map(() => null)),
          ...gap.map(() => null),
          ...(live.values[field] ?? []).slice(from),
        ],
      ]),
    ),
  };
}
