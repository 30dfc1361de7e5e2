import { numberFormat, relativeFormat } from "@/format/intl";

/** Instants and durations. An instant is RFC 3339 text in UTC, as the API sends it. */

const SECOND = 1;
const MINUTE = 60;
const HOUR = 3600;
const DAY = 86_400;

type Unit = "day" | "hour" | "minute" | "second" | "millisecond";

function unit(value: number, name: Unit, language: string): string {
  return numberFormat(language, {
    style: "unit",
    unit: name,
    // Narrow milliseconds are "ms" in Chinese too, beside "秒".
    unitDisplay: name === "millisecond" && language.startsWith("zh") ? "short" : "narrow",
    maximumFractionDigits: value < 10 && name !== "millisecond" && !Number.isInteger(value) ? 1 : 0,
  }).format(value);
}

/** Two units at most: 2h 5m, 3.2s, 40ms. */
export function duration(seconds: number, language: string): string {
  const sign = seconds < 0 ? "−" : "";
  const rest = Math.abs(seconds);
  if (rest === 0) return unit(0, "second", language);
  if (rest < 0.9995) return sign + unit(Math.max(1, Math.round(rest * 1000)), "millisecond", language);
  if (rest < 59.95) return sign + unit(Math.round(rest * 10) / 10, "second", language);
  const whole = Math.round(rest);
  const [bigName, big, smallName, small]: [Unit, number, Unit, number] =
    whole >= DAY
      ? ["day", DAY, "hour", HOUR]
      : whole >= HOUR
        ? ["hour", HOUR, "minute", MINUTE]
        : ["minute", MINUTE, "second", SECOND];
  const first = Math.floor(whole / big);
  const second = Math.floor((whole % big) / small);
  const parts = [unit(first, bigName, language), ...(second ? [unit(second, smallName, language)] : [])];
  return sign + parts.join(language.startsWith("zh") ? "" : " ");
}

/** How an instant is shown: the viewer's zone unless they chose UTC. */
export type Zone = "local" | "utc";

export function zoneName(zone: Zone): string {
  return zone === "utc" ? "UTC" : Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/** 2026-11-21 14:03:05, the same in every language. */
export function dateTime(iso: string, zone: Zone, withMillis = false): string {
  const millis = withMillis ? `.${String(new Date(iso).getMilliseconds()).padStart(3, "0")}` : "";
  const date = new Date(iso);
  const shown = zone === "utc" ? date : new Date(date.getTime() - date.getTimezoneOffset() * 60_000);
  return shown.toISOString().slice(0, 19).replace("T", " ") + millis;
}

/** The same instant in UTC, for the hint: 2026-11-21 14:03:05.120 UTC. */
export function utc(iso: string): string {
  return `${new Date(iso).toISOString().replace("T", " ").replace("Z", "")} UTC`;
}

/** What clocks differ by: it is now, and no second before or after that. */
const CLOCKS_DIFFER = 2;

/** "3 minutes ago", "in 2 days", by the clock handed in (ms since 1970). */
export function relative(iso: string, nowMs: number, language: string): string {
  const seconds = (new Date(iso).getTime() - nowMs) / 1000;
  const format = relativeFormat(language, { numeric: "auto" });
  if (seconds > 0 && seconds < CLOCKS_DIFFER) return format.format(0, "second");
  const size = Math.abs(seconds);
  if (size < 60) return format.format(Math.round(seconds), "second");
  if (size < HOUR) return format.format(Math.round(seconds / MINUTE), "minute");
  if (size < DAY) return format.format(Math.round(seconds / HOUR), "hour");
  return format.format(Math.round(seconds / DAY), "day");
}

/** "-05:00": what local time is ahead of UTC. */
function offsetOf(date: Date): string {
  const minutes = -date.getTimezoneOffset();
  const two = (value: number) => String(Math.floor(value)).padStart(2, "0");
  return `${minutes < 0 ? "-" : "+"}${two(Math.abs(minutes) / 60)}:${two(Math.abs(minutes) % 60)}`;
}

/** Longer than what a clock is set back by. */
const SET_BACK_MS = 3 * HOUR * 1000;

/** Whether local clocks show this time twice, because they are set back. */
function isRepeated(date: Date): boolean {
  const shiftMs = (other: number) => (new Date(other).getTimezoneOffset() - date.getTimezoneOffset()) * 60_000;
  const at = date.getTime();
  const [later, earlier] = [shiftMs(at + SET_BACK_MS), shiftMs(at - SET_BACK_MS)];
  return (later > 0 && shiftMs(at + later) === later) || (earlier < 0 && shiftMs(at + earlier) === earlier);
}

/**
 * What a field holds for an instant, in the zone that is shown: 2026-12-01 10:11, with seconds where there are some,
 * and with the offset where clocks show that time twice: 2026-11-01 01:25 -05:00. So `fromField` returns the same
 * second.
 */
export function toField(iso: string, zone: Zone): string {
  const text = dateTime(iso, zone).replace(/:00$/, "");
  const date = new Date(iso);
  return zone === "local" && isRepeated(date) ? `${text} ${offsetOf(date)}` : text;
}

const FIELD =
  /^(\d{4})-(\d\d?)-(\d\d?)(?:[ T](\d\d?)(?::(\d{0,2})(?::(\d{0,2})(?:\.\d*)?)?)?)?(?: ?(?:(UTC|Z)|([+-])(\d\d):?(\d\d)))?$/i;

/** Why a text is no instant: it is not written as one, or clocks skip this time because they are set forward. */
export type NoInstant = "format" | "skipped";

/**
 * The instant that a field means in the zone that is shown, or at the offset that it has: 2026-12-01, 2026-12-01 9:30,
 * 2026-12-01T09:30:15Z, 2026-11-01 01:25 -05:00. Of a time that clocks show twice without its offset it is the first.
 */
export function parseField(typed: string, zone: Zone): { at: string } | { at: null; why: NoInstant } {
  const wrong = { at: null, why: "format" } as const;
  const found = FIELD.exec(typed.trim());
  if (!found) return wrong;
  const numbers = found.slice(1, 7).map((part: string | undefined) => Number(part ?? 0));
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = numbers;
  const inUtc = new Date(0);
  inUtc.setUTCFullYear(year, month - 1, day);
  // The 31st of November is no day, nor is 25:00 a time.
  if (inUtc.getUTCDate() !== day || month > 12 || hour > 23 || minute > 59 || second > 59) return wrong;
  inUtc.setUTCHours(hour, minute, second);
  const [, , , , , , , utcWord, sign, offsetHours = "0", offsetMinutes = "0"] = found as (string | undefined)[];
  if (zone === "utc" || utcWord !== undefined || sign !== undefined) {
    const offset = (Number(offsetHours) * 60 + Number(offsetMinutes)) * (sign === "-" ? -1 : 1);
    return { at: new Date(inUtc.getTime() - offset * 60_000).toISOString() };
  }
  const date = firstAt(year, month, day, hour, minute, second);
  return date.getHours() === hour && date.getMinutes() === minute
    ? { at: date.toISOString() }
    : { at: null, why: "skipped" };
}

/** The local time; of one that is skipped, as long after the skip. */
function firstAt(year: number, month: number, day: number, hour = 0, minute = 0, second = 0): Date {
  const date = new Date(0);
  date.setFullYear(year, month - 1, day);
  date.setHours(hour, minute, second, 0);
  return date;
}

/** The instant that a field means; null when it means none. */
export function fromField(typed: string, zone: Zone): string | null {
  return parseField(typed, zone).at;
}

// --- days -----------------------------------------------------------------------------------------------------------

function partsOf(day: string): [number, number, number] {
  const [year = 0, month = 1, date = 1] = day.split("-").map(Number);
  return [year, month, date];
}

/** The day an instant belongs to, in the zone that is shown: `2026-11-21`. */
export function dayOf(ms: number, zone: Zone): string {
  return dateTime(new Date(ms).toISOString(), zone).slice(0, 10);
}

/** The day `days` later, by the calendar: days have 23, 24 or 25 hours. */
export function addDays(day: string, days: number): string {
  const [year, month, date] = partsOf(day);
  return new Date(Date.UTC(year, month - 1, date + days)).toISOString().slice(0, 10);
}

/** A time of a day (`09:00`, `09:00:05`), in the zone that is shown; where clocks skip it, the time after the skip. */
export function timeOn(day: string, time: string, zone: Zone): string {
  const [year, month, date] = partsOf(day);
  const [hour = 0, minute = 0, second = 0] = time.split(":").map(Number);
  if (zone === "utc") return new Date(Date.UTC(year, month - 1, date, hour, minute, second)).toISOString();
  return firstAt(year, month, date, hour, minute, second).toISOString();
}
