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
  return toField(iso, zone).replace("T", " ") + millis;
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

/** What a datetime-local field holds for an instant, in the zone that is shown. */
export function toField(iso: string, zone: Zone): string {
  const date = new Date(iso);
  if (zone === "utc") return date.toISOString().slice(0, 19);
  const local = new Date(date.getTime() - date.getTimezoneOffset() * 60_000);
  return local.toISOString().slice(0, 19);
}

/** The instant that a datetime-local field means in the zone that is shown; null when it holds none. */
export function fromField(value: string, zone: Zone): string | null {
  if (!value) return null;
  const date = new Date(zone === "utc" ? `${value}Z` : value);
  return Number.isNaN(date.getTime()) ? null : date.toISOString();
}
