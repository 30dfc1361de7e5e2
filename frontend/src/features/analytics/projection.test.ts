import { expect, test } from "vitest";
import { AHEAD_SECONDS_MAX, projected } from "@/features/analytics/projection";

test("the lag continues from its last measurement to zero, between the early and the late drain", () => {
  const found = projected([0, 60, 120], [50, 100, null], 60, { low: 60, mid: 120, high: 240 });
  expect(found.at).toEqual([0, 60, 120, 180, 240, 300]);
  expect(found.lag).toEqual([50, 100, null, null, null, null]);
  expect(found.expected).toEqual([null, 100, 50, 0, 0, 0]);
  expect(found.low).toEqual([null, 100, 0, 0, 0, 0]);
  expect(found.high).toEqual([null, 100, 75, 50, 25, 0]);
});

test("where the late drain is not in sight, the upper bound stays at the lag", () => {
  const found = projected([0, 60], [80, 100], 60, { low: 60, mid: null, high: null });
  expect(found.high).toEqual([null, 100, 100, 100]);
  expect(found.expected).toEqual([null, null, null, null]);
});

test("while the interval is not known yet, there is a line and no band", () => {
  const found = projected([0, 60], [80, 100], 60, { low: null, mid: 120, high: null });
  expect(found.expected).toEqual([null, 100, 50, 0, 0, 0]);
  expect(found.low).toEqual(found.at.map(() => null));
  expect(found.high).toEqual(found.low);
});

test("without a measured lag, or a forecast, nothing is ahead", () => {
  expect(projected([0, 60], [null, null], 60, { low: 1, mid: 2, high: 3 }).at).toEqual([0, 60]);
  expect(projected([0, 60], [1, 2], 60, { low: null, mid: null, high: null }).at).toEqual([0, 60]);
  expect(projected([], [], 60, { low: 1, mid: 2, high: 3 }).at).toEqual([]);
});

test("a drain in a year is shown for a week, in few steps", () => {
  const found = projected([0], [100], 60, { low: 1, mid: 2, high: 365 * 86_400 });
  expect(found.at.length).toBeLessThanOrEqual(202);
  expect(found.at.at(-1)).toBeLessThanOrEqual(AHEAD_SECONDS_MAX + 3600);
});
