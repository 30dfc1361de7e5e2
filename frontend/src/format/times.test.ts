import { expect, test, vi } from "vitest";
import { fromField, parseField, timeOn, toField } from "@/format/times";

test("a field holds an ISO date, with seconds where there are some", () => {
  expect(toField("2026-12-01T10:11:00.000Z", "utc")).toBe("2026-12-01 10:11");
  expect(toField("2026-12-01T10:11:05.123Z", "utc")).toBe("2026-12-01 10:11:05");
});

test.each([
  ["2026-12-01 10:11", "2026-12-01T10:11:00.000Z"],
  ["2026-12-01T10:11:05", "2026-12-01T10:11:05.000Z"],
  [" 2026-12-1 9:30 ", "2026-12-01T09:30:00.000Z"],
  ["2026-12-01", "2026-12-01T00:00:00.000Z"],
  ["2026-12-01 10:11:", "2026-12-01T10:11:00.000Z"],
])("%s is an instant of the zone that is shown", (typed, instant) => {
  expect(fromField(typed, "utc")).toBe(instant);
  expect(toField(fromField(typed, "local") ?? "", "local")).toBe(toField(instant, "utc"));
});

test.each(["2026-12-01T10:11:05.120Z", "2026-12-01 10:11:05 UTC"])("%s says its zone itself", (typed) => {
  expect(fromField(typed, "local")).toBe("2026-12-01T10:11:05.000Z");
});

test.each(["", "tomorrow", "2026-11-31", "2026-13-01", "2026-12-01 25:00", "2026-12-01 10:61", "01/12/2026"])(
  "%j is none",
  (typed) => {
    expect(fromField(typed, "utc")).toBeNull();
    expect(fromField(typed, "local")).toBeNull();
  },
);

const ZONES = [
  "America/New_York",
  "Europe/Berlin",
  "Australia/Lord_Howe",
  "Africa/Cairo",
  "America/Havana",
  "Asia/Shanghai",
];

test.each(ZONES)("in %s a field keeps each second of a year of half hours", (name) => {
  vi.stubEnv("TZ", name);
  for (let at = Date.parse("2026-01-01T00:00:01Z"); at < Date.parse("2027-01-02T00:00:00Z"); at += 30 * 60_000) {
    const instant = new Date(at).toISOString();
    expect(fromField(toField(instant, "local"), "local")).toBe(instant);
  }
});

test("the hour that clocks show twice has its offset; without one the first is meant", () => {
  vi.stubEnv("TZ", "America/New_York");
  expect(toField("2026-11-01T05:25:00Z", "local")).toBe("2026-11-01 01:25 -04:00");
  expect(toField("2026-11-01T06:25:00Z", "local")).toBe("2026-11-01 01:25 -05:00");
  expect(toField("2026-11-01T04:59:00Z", "local")).toBe("2026-11-01 00:59");
  expect(toField("2026-11-01T07:00:00Z", "local")).toBe("2026-11-01 02:00");
  expect(fromField("2026-11-01 01:25", "local")).toBe("2026-11-01T05:25:00.000Z");
  expect(fromField("2026-11-01 01:25-05:00", "local")).toBe("2026-11-01T06:25:00.000Z");
  expect(fromField("2026-11-01 01:25 +0530", "utc")).toBe("2026-10-31T19:55:00.000Z");
  vi.stubEnv("TZ", "Australia/Lord_Howe");
  expect(toField("2026-04-04T15:15:00Z", "local")).toBe("2026-04-05 01:45 +10:30");
});

test("a time that clocks skip is none, and said to be skipped", () => {
  vi.stubEnv("TZ", "America/New_York");
  expect(parseField("2026-03-08 02:30", "local")).toEqual({ at: null, why: "skipped" });
  expect(parseField("2026-03-08 03:00", "local")).toEqual({ at: "2026-03-08T07:00:00.000Z" });
  expect(parseField("2026-03-08 02:30", "utc")).toEqual({ at: "2026-03-08T02:30:00.000Z" });
  expect(parseField("2026-03-32 02:30", "local")).toEqual({ at: null, why: "format" });
  expect(timeOn("2026-03-08", "02:30", "local")).toBe("2026-03-08T07:30:00.000Z");
});
