import * as numbers from "@/format/numbers";
import * as times from "@/format/times";
import type { Format } from "@/ui/Measured";

/** How charts write numbers and times. Pure. */

/** A value in full, as beside the chart and in its table. */
export function inFull(value: number, as: Format | undefined, language: string): string {
  if (as === "duration") return times.duration(value, language);
  if (as === "bytes") return numbers.bytes(value, language);
  if (as === "percent") return numbers.percent(value, language);
  if (as === "rate") return numbers.rate(value, language);
  return numbers.count(value, language);
}

/** A value where there is little room; small steps of counts and rates keep their fraction. */
export function onAxis(value: number, as: Format | undefined, language: string): string {
  return as === "duration" || as === "bytes" || as === "percent"
    ? inFull(value, as, language)
    : numbers.compact(value, language);
}

const MINUTE = 60;
const HOUR = 3_600;
const DAY = 86_400;
const SECONDS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30];
const OF_DURATIONS: readonly number[] = [
  ...SECONDS,
  ...[1, 2, 5, 10, 15, 30].map((count) => count * MINUTE),
  ...[1, 2, 3, 6, 12].map((count) => count * HOUR),
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000].map((count) => count * DAY),
];
const OF_BYTES: readonly number[] = Array.from({ length: 60 }, (_, power) => 2 ** power);

/** Steps between the ticks of an axis that people count in; undefined: tens, as for all other numbers. */
export function steps(as: Format | undefined): readonly number[] | undefined {
  if (as === "duration") return OF_DURATIONS;
  if (as === "bytes") return OF_BYTES;
  return undefined;
}

/** Times below an axis, `step` seconds apart: the date at the first one and whenever a day begins. */
export function timesOnAxis(ticks: readonly number[], step: number, language: string, zone: times.Zone): string[] {
  const timeZone = zone === "utc" ? "UTC" : undefined;
  const day = new Intl.DateTimeFormat(language, { month: "2-digit", day: "2-digit", timeZone });
  const time = new Intl.DateTimeFormat(language, {
    hour: "2-digit",
    minute: "2-digit",
    second: step < MINUTE ? "2-digit" : undefined,
    hourCycle: "h23",
    timeZone,
  });
  let before = "";
  return ticks.map((tick) => {
    const date = new Date(tick * 1000);
    const of = day.format(date);
    const isNewDay = of !== before;
    before = of;
    if (step >= DAY) return of;
    return isNewDay ? `${time.format(date)}\n${of}` : time.format(date);
  });
}

/** An instant in full: the viewer's zone, and UTC. */
export function instant(seconds: number, language: string, zone: times.Zone): string {
  const iso = new Date(seconds * 1000).toISOString();
  const utc = times.utc(iso).replace(".000", "");
  return zone === "utc" ? utc : `${times.dateTime(iso, language, zone)} (${utc})`;
}

/** The same where there is little room. */
export function instantShort(seconds: number, language: string, zone: times.Zone): string {
  const written = (timeZone: string | undefined, withDay: boolean) =>
    new Intl.DateTimeFormat(language, {
      ...(withDay ? { month: "2-digit" as const, day: "2-digit" as const } : {}),
      hour: "2-digit",
      minute: "2-digit",
      second: "2-digit",
      hourCycle: "h23",
      timeZone,
    }).format(new Date(seconds * 1000));
  if (zone === "utc") return `${written("UTC", true)} UTC`;
  return `${written(undefined, true)} (${written("UTC", false)} UTC)`;
}
