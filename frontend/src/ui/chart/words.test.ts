import { expect, test } from "vitest";
import { inFull, instant, instantShort, onAxis, steps, timesOnAxis } from "@/ui/chart/words";

const NOON = Date.parse("2026-11-21T12:00:00Z") / 1000;

test("values are written in their unit, short on the axis", () => {
  expect(inFull(7_265, "duration", "en-GB")).toBe("2h 1m");
  expect(inFull(1_234_567, "count", "en-GB")).toBe("1,234,567");
  expect(onAxis(1_234_567, "count", "en-GB")).toBe("1.2M");
  expect(onAxis(1_536, "bytes", "en-GB")).toBe("1.5 KiB");
});

test("durations and bytes have steps that people count in, in ascending order", () => {
  expect(steps("duration")).toEqual(expect.arrayContaining([15, 60, 900, 3_600, 86_400]));
  expect(steps("bytes")).toContain(1_024);
  expect(steps("count")).toBeUndefined();
  for (const as of ["duration", "bytes"] as const) {
    const found = [...(steps(as) ?? [])];
    expect(found).toEqual(found.toSorted((one, other) => one - other));
  }
});

test("the axis names the day once, and again when it changes", () => {
  const ticks = [NOON, NOON + 6 * 3_600, NOON + 12 * 3_600];
  expect(timesOnAxis(ticks, 6 * 3_600, "utc")).toEqual(["12:00\n11-21", "18:00", "00:00\n11-22"]);
  expect(timesOnAxis([NOON, NOON + 5], 5, "utc")[1]).toBe("12:00:05");
  expect(timesOnAxis([NOON, NOON + 86_400], 86_400, "utc")).toEqual(["11-21", "11-22"]);
});

test("an instant says UTC whatever the zone", () => {
  expect(instant(NOON, "utc")).toBe("2026-11-21 12:00:00 UTC");
  expect(instant(NOON, "local")).toContain("(2026-11-21 12:00:00 UTC)");
});

test("beside the chart an instant is short and still says UTC", () => {
  expect(instantShort(NOON, "utc")).toBe("11-21 12:00:00 UTC");
  expect(instantShort(NOON, "local")).toMatch(/^11-\d\d \d\d:\d\d:00 \(12:00:00 UTC\)$/);
});
