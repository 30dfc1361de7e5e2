/** The lag of a consumer group as a forecast of its drain time continues it. Pure. */

/** Seconds after the last measurement that a chart shows at most. */
export const AHEAD_SECONDS_MAX = 7 * 86_400;
/** Steps after the last measurement that a chart shows at most. */
const STEPS_MAX = 200;

/**
 * What a forecast says: seconds until the lag is zero, early, expected and late; null: over a day. An early one that is
 * null beside an expected one is not known, as is the late one then.
 */
export interface DrainTimes {
  low: number | null;
  mid: number | null;
  high: number | null;
}

export interface Projection {
  /** Instants in seconds since 1970: those that were measured, then those ahead. */
  at: number[];
  /** The measured lag; null ahead. */
  lag: (number | null)[];
  /** The expected lag ahead; null where it was measured, and where no drain is expected. */
  expected: (number | null)[];
  low: (number | null)[];
  high: (number | null)[];
}

/** The lag `seconds` ahead on a straight line from `now` to zero after `drain` seconds; null: it stays. */
function lagAfter(now: number, seconds: number, drain: number | null): number {
  if (drain === null) return now;
  return drain <= 0 ? 0 : Math.max(0, now * (1 - seconds / drain));
}

/**
 * The measured lag, and the band between an early and a late drain, until the late one (or, where there is none, twice
 * the latest of the others), AHEAD_SECONDS_MAX at most. Without a measured lag there is nothing ahead.
 */
export function projected(
  at: readonly number[],
  lag: readonly (number | null)[],
  stepSeconds: number,
  times: DrainTimes,
): Projection {
  const last = lag.findLastIndex((value) => value !== null);
  const now = lag[last] ?? null;
  const begin = at[last];
  const latest = times.high ?? (times.mid ?? times.low ?? 0) * 2;
  const span = Math.min(latest, AHEAD_SECONDS_MAX);
  if (now === null || begin === undefined || span <= 0) {
    const nothing = at.map(() => null);
    return { at: [...at], lag: [...lag], expected: nothing, low: nothing, high: nothing };
  }
  const step = Math.max(stepSeconds, span / STEPS_MAX);
  const ahead = Array.from({ length: Math.ceil(span / step) }, (_, index) => (index + 1) * step);
  // The measured range ends with the last measurement, where both parts of the picture meet.
  const measured = at.slice(0, last + 1);
  const unknown = measured.slice(0, -1).map(() => null);
  const nothing = [...measured, ...ahead].map(() => null);
  const line = (drain: number | null) => [...unknown, now, ...ahead.map((seconds) => lagAfter(now, seconds, drain))];
  return {
    at: [...measured, ...ahead.map((seconds) => begin + seconds)],
    lag: [...lag.slice(0, last + 1), ...ahead.map(() => null)],
    expected: times.mid === null ? nothing : line(times.mid),
    low: times.low === null ? nothing : line(times.low),
    high: times.low === null ? nothing : line(times.high),
  };
}
