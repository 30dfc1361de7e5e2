import { addDays, timeOn, type Zone } from "@/format/times";

export const HOUR_MS = 3_600_000;
/** Days that the calendar shows at once. */
export const WINDOW_DAYS = 31;
/** Shades of the heat map beside "none". */
export const LEVELS = 5;

/** Pending messages by the begin of their hour (ms since 1970, whole hours of UTC), as the API counts them. */
export type Counts = ReadonlyMap<number, number>;

/** One field of the heat map: the hours of UTC that begin in one hour of the viewer's day. Two when clocks go back. */
export interface Cell {
  begin: number;
  end: number;
}

/** A day of the viewer's zone, `2026-11-21`, with a field for each hour; null for an hour that the day leaves out. */
export interface Day {
  day: string;
  begin: number;
  end: number;
  hours: readonly (Cell | null)[];
}

/** What the fields of a calendar are drawn from. */
export interface Fields {
  counts: Counts;
  /** Not all delay groups answered: what is counted is a part of the whole, and none counted is unknown. */
  isPartial: boolean;
  selected: Cell | null;
  onHour: (cell: Cell) => void;
}

/** Whether a text of the address is a day that there is. */
export function isDay(text: string | undefined): text is string {
  return text !== undefined && /^\d{4}-\d{2}-\d{2}$/.test(text) && addDays(text, 0) === text;
}

/** When a day begins, in the zone that is shown. */
export function beginOf(day: string, zone: Zone): number {
  return Date.parse(timeOn(day, "00:00", zone));
}

/**
 * A day's fields. In zones off by half hours a field is the whole hour of UTC that begins in it: that is what is
 * counted.
 */
export function dayWith(day: string, zone: Zone): Day {
  const begin = beginOf(day, zone);
  const end = beginOf(addDays(day, 1), zone);
  const hours: (Cell | null)[] = Array.from({ length: 24 }, () => null);
  for (let at = Math.ceil(begin / HOUR_MS) * HOUR_MS; at < end; at += HOUR_MS) {
    const hour = zone === "utc" ? new Date(at).getUTCHours() : new Date(at).getHours();
    hours[hour] = { begin: hours[hour]?.begin ?? at, end: at + HOUR_MS };
  }
  return { day, begin, end, hours };
}

/** The days of a window, from its first one on. */
export function windowFrom(first: string, zone: Zone): Day[] {
  return Array.from({ length: WINDOW_DAYS }, (_, n) => dayWith(addDays(first, n), zone));
}

/** How many are pending in a range of whole hours. */
export function pendingIn({ begin, end }: Cell, counts: Counts): number {
  let sum = 0;
  for (let at = begin; at < end; at += HOUR_MS) sum += counts.get(at) ?? 0;
  return sum;
}

/**
 * The shade of a count: 0 for none, else 1 to LEVELS by its magnitude, so that one burst does not make all others pale.
 */
export function levelOf(count: number, most: number): number {
  if (count <= 0) return 0;
  if (most <= 1) return LEVELS;
  return 1 + Math.round((LEVELS - 1) * (Math.log(count) / Math.log(most)));
}

/** What falls due soon: in the rest of this hour and in the next, and when that ends. */
export function dueSoon(counts: Counts, nowMs: number): { count: number; until: number } {
  const begin = Math.floor(nowMs / HOUR_MS) * HOUR_MS;
  const until = begin + 2 * HOUR_MS;
  return { count: pendingIn({ begin, end: until }, counts), until };
}

/** The range of due times that days cover. */
export function rangeOf(days: readonly Day[]): { from: string; to: string } {
  const begin = days[0]?.begin ?? 0;
  const end = days.at(-1)?.end ?? begin;
  return { from: new Date(begin).toISOString(), to: new Date(end).toISOString() };
}
