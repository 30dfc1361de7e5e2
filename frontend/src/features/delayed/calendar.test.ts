import { afterEach, expect, test, vi } from "vitest";
import { dayWith, dueSoon, HOUR_MS, isDay, levelOf, pendingIn, windowFrom } from "@/features/delayed/calendar";
import { addDays, dayOf } from "@/format/times";

afterEach(() => {
  vi.unstubAllEnvs();
});

const at = (iso: string) => Date.parse(iso);

test("a day in UTC has its 24 hours", () => {
  const { hours, begin, end } = dayWith("2026-11-21", "utc");
  expect(hours[14]).toEqual({ begin: at("2026-11-21T14:00:00Z"), end: at("2026-11-21T15:00:00Z") });
  expect([begin, end]).toEqual([at("2026-11-21T00:00:00Z"), at("2026-11-22T00:00:00Z")]);
});

test("a day in the viewer's zone begins at its midnight", () => {
  vi.stubEnv("TZ", "Asia/Shanghai");
  const { hours } = dayWith("2026-11-21", "local");
  expect(hours[0]?.begin).toBe(at("2026-11-20T16:00:00Z"));
  expect(dayOf(at("2026-11-20T16:00:00Z"), "local")).toBe("2026-11-21");
  expect(dayOf(at("2026-11-20T16:00:00Z"), "utc")).toBe("2026-11-20");
});

test("the hour that is skipped in spring is no field, the doubled one in autumn holds both", () => {
  vi.stubEnv("TZ", "Europe/Berlin");
  const spring = dayWith("2026-03-29", "local");
  expect(spring.hours[2]).toBeNull();
  expect(spring.hours.filter(Boolean)).toHaveLength(23);
  const autumn = dayWith("2026-10-25", "local");
  expect(autumn.hours[2]).toEqual({ begin: at("2026-10-25T00:00:00Z"), end: at("2026-10-25T02:00:00Z") });
  const counts = new Map([
    [at("2026-10-25T00:00:00Z"), 3],
    [at("2026-10-25T01:00:00Z"), 4],
  ]);
  expect(autumn.hours[2] && pendingIn(autumn.hours[2], counts)).toBe(7);
});

test("in a zone off by half an hour each counted hour is in one field, of one day", () => {
  vi.stubEnv("TZ", "Asia/Kolkata");
  const days = windowFrom("2026-11-21", "local");
  const begins = days.flatMap(({ hours }) => hours.map((cell) => cell?.begin));
  expect(new Set(begins).size).toBe(days.length * 24);
  expect(days[0]?.hours[0]?.begin).toBe(at("2026-11-20T19:00:00Z"));
});

test("days are counted over months, and told from what is none", () => {
  expect(addDays("2026-12-31", 1)).toBe("2027-01-01");
  expect(addDays("2026-03-01", -1)).toBe("2026-02-28");
  expect([isDay("2026-02-28"), isDay("2026-02-30"), isDay("today"), isDay(undefined)]).toEqual([
    true,
    false,
    false,
    false,
  ]);
});

test("shades go by magnitude: none is no shade, one is the lightest, the most the darkest", () => {
  expect([0, 1, 10, 100, 10_000].map((count) => levelOf(count, 10_000))).toEqual([0, 1, 2, 3, 5]);
  expect(levelOf(1, 1)).toBe(5);
});

test("due soon is this hour and the next", () => {
  const now = at("2026-11-21T14:40:00Z");
  const hour = at("2026-11-21T14:00:00Z");
  const counts = new Map([
    [hour - HOUR_MS, 100],
    [hour, 2],
    [hour + HOUR_MS, 3],
    [hour + 2 * HOUR_MS, 1_000],
  ]);
  expect(dueSoon(counts, now)).toEqual({ count: 5, until: hour + 2 * HOUR_MS });
});
