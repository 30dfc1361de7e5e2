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
    unitDisplay: "narrow",
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
  return sign + [unit(first, bigName, language), ...(second ? [unit(second, smallName, language)] : [])].join(" ");
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

/** "3 minutes ago", "in 2 days", by the clock handed in (ms since 1970). */
export function relative(iso: string, nowMs: number, language: string): string {
  const seconds = (new Date(iso).getTime() - nowMs) / 1000;
  const format = relativeFormat(language, { numeric: "auto" });
  const size = Math.abs(seconds);
  if (size < 60) return format.format(Math.round(seconds), "second");
  if (size < HOUR) return format.format(Math.round(seconds / MINUTE), "minute");
  if (size < DAY) return format.format(Math.round(seconds / HOUR), "hour");
  return format.format(Math.round(seconds / DAY), "day");
}

/** What a field holds for an instant, in the zone that is shown: 2026-12-01 10:11, with seconds where there are some. */
export function toField(iso: string, zone: Zone): string {
  return dateTime(iso, zone).replace(/:00$/, "");
}

const FIELD = /^(\d{4})-(\d\d?)-(\d\d?)(?:[ T](\d\d?)(?::(\d{0,2})(?::(\d{0,2})(?:\.\d*)?)?)?)?( ?UTC|Z)?$/i;

/**
 * The instant that a field means in the zone that is shown, or in UTC where it says so: 2026-12-01, 2026-12-01 9:30,
 * 2026-12-01T09:30:15Z. Null when it means none.
 */
export function fromField(typed: string, zone: Zone): string | null {
  const found = FIELD.exec(typed.trim());
  if (!found) return null;
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = found
    .slice(1, 7)
    .map((part: string | undefined) => Number(part ?? 0));
  const isUtc = zone === "utc" || found[7] !== undefined;
  const date = isUtc
    ? new Date(Date.UTC(year, month - 1, day, hour, minute, second))
    : new Date(year, month - 1, day, hour, minute, second);
  // The 31st of November is no day, nor is 25:00 a time.
  const meant = isUtc ? date.getUTCDate() : date.getDate();
  return meant === day && month <= 12 && hour < 24 && minute < 60 && second < 60 ? date.toISOString() : null;
}
