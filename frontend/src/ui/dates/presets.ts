import { addDays, dateTime, dayOf, timeOn, type Zone } from "@/format/times";

/** Where a field looks: back, for what happened, or ahead, for what is to happen. */
export type Direction = "past" | "future";

type Instant = (nowMs: number, zone: Zone) => string;

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/** So long from now, in whole seconds. */
const away =
  (ms: number): Instant =>
  (nowMs) =>
    new Date(Math.floor((nowMs + ms) / 1000) * 1000).toISOString();

/** At a time of the day that is `days` after today, in the zone that is shown; without a time, that of now. */
const onDay =
  (days: number, time?: string): Instant =>
  (nowMs, zone) =>
    timeOn(addDays(dayOf(nowMs, zone), days), time ?? timeOf(nowMs, zone), zone);

const timeOf = (nowMs: number, zone: Zone) => dateTime(new Date(nowMs).toISOString(), zone).slice(11);

const onMonday: Instant = (nowMs, zone) => {
  // A day as it is called in the zone that is shown has the weekday that this name has in UTC.
  const weekday = new Date(dayOf(nowMs, zone)).getUTCDay();
  return onDay((8 - weekday) % 7 || 7, "09:00")(nowMs, zone);
};

/** Instants that are wanted often, by the key of their text. Pure. */
export const PRESETS: Readonly<Record<Direction, Readonly<Record<string, Instant>>>> = {
  past: {
    minutes_15: away(-15 * MINUTE_MS),
    hours_1: away(-HOUR_MS),
    hours_24: away(-24 * HOUR_MS),
    days_7: onDay(-7),
    today: onDay(0, "00:00"),
  },
  future: {
    in_minutes_15: away(15 * MINUTE_MS),
    in_hours_1: away(HOUR_MS),
    in_hours_24: away(24 * HOUR_MS),
    tomorrow: onDay(1, "09:00"),
    monday: onMonday,
  },
};
