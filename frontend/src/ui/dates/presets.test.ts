import { expect, test } from "vitest";
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
