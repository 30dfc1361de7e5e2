import * as numbers from "@/format/numbers";
import * as times from "@/format/times";
import type { Format } from "@/ui/measure/Measured";

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
export function timesOnAxis(ticks: readonly number[], step: number, zone: times.Zone): string[] {
  let before = "";
  return ticks.map((tick) => {
    const [date = "", time = ""] = times.dateTime(new Date(tick * 1000).toISOString(), zone).split(" ");
    const day = date.slice(5);
    const isNewDay = day !== before;
    before = day;
    if (step >= DAY) return day;
    const shown = step < MINUTE ? time : time.slice(0, 5);
    return isNewDay ? `${shown}\n${day}` : shown;
  });
}

/** An instant in full: the viewer's zone, and UTC. */
export function instant(seconds: number, zone: times.Zone): string {
  const iso = new Date(seconds * 1000).toISOString();
  const utc = times.utc(iso).replace(".000", "");
  return zone === "utc" ? utc : `${times.dateTime(iso, zone)} (${utc})`;
}

/** The same in less space, without the year. */
export function instantShort(seconds: number, zone: times.Zone): string {
  const iso = new Date(seconds * 1000).toISOString();
  const shown = times.dateTime(iso, zone).slice(5);
  return zone === "utc" ? `${shown} UTC` : `${shown} (${times.dateTime(iso, "utc").slice(11)} UTC)`;
}
