import { expect, test, vi } from "vitest";
import { PRESETS, type Direction } from "@/ui/dates/presets";

/** A Tuesday. */
const NOW = Date.parse("2026-11-24T10:11:12.345Z");

function at(direction: Direction, nowMs: number): Record<string, string> {
  return Object.fromEntries(Object.entries(PRESETS[direction]).map(([key, instant]) => [key, instant(nowMs, "utc")]));
}

test("what happened: minutes, hours and days ago, and today's begin", () => {
  expect(at("past", NOW)).toEqual({
    minutes_15: "2026-11-24T09:56:12.000Z",
    hours_1: "2026-11-24T09:11:12.000Z",
    hours_24: "2026-11-23T10:11:12.000Z",
    days_7: "2026-11-17T10:11:12.000Z",
    today: "2026-11-24T00:00:00.000Z",
  });
});

test("what is to happen: soon, tomorrow morning, Monday morning", () => {
  expect(at("future", NOW)).toEqual({
    in_minutes_15: "2026-11-24T10:26:12.000Z",
    in_hours_1: "2026-11-24T11:11:12.000Z",
    in_hours_24: "2026-11-25T10:11:12.000Z",
    tomorrow: "2026-11-25T09:00:00.000Z",
    monday: "2026-11-30T09:00:00.000Z",
  });
});

test("on a Monday the next one is a week away", () => {
  expect(at("future", Date.parse("2026-11-30T08:00:00Z")).monday).toBe("2026-12-07T09:00:00.000Z");
});

test.each([
  ["2026-03-07T17:00:00Z", "tomorrow", "2026-03-08T13:00:00.000Z"],
  ["2026-03-09T03:30:00Z", "tomorrow", "2026-03-09T13:00:00.000Z"],
  ["2026-11-01T04:30:00Z", "tomorrow", "2026-11-02T14:00:00.000Z"],
  ["2026-11-01T06:01:00Z", "in_hours_1", "2026-11-01T07:01:00.000Z"],
])("days of 23 and 25 hours are days: at %s %s is %s", (now, key, instant) => {
  vi.stubEnv("TZ", "America/New_York");
  expect(PRESETS.future[key]?.(Date.parse(now), "local")).toBe(instant);
});

test("seven days ago is the same time of the day", () => {
  vi.stubEnv("TZ", "America/New_York");
  expect(PRESETS.past.days_7?.(Date.parse("2026-11-05T15:00:00Z"), "local")).toBe("2026-10-29T14:00:00.000Z");
});

test("a day without midnight begins later", () => {
  vi.stubEnv("TZ", "America/Havana");
  expect(PRESETS.past.today?.(Date.parse("2026-03-08T18:00:00Z"), "local")).toBe("2026-03-08T05:00:00.000Z");
});
