import { expect, test } from "vitest";
import { fromField, toField } from "@/format/times";

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
