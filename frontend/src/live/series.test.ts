import { expect, test } from "vitest";
import { appended, joined, NO_SERIES } from "@/live/series";

const FIELDS = ["rate"];

test("what was not measured is a gap, and so is the time nobody looked", () => {
  let series = appended(NO_SERIES, 100, { rate: 5 }, FIELDS);
  series = appended(series, 101, { rate: null, reason: "away" }, FIELDS);
  series = appended(series, 200, { rate: 7 }, FIELDS);
  expect(series).toEqual({ at: [100, 101, 102, 200], values: { rate: [5, null, null, 7] } });
});

test("an instant comes once, and only the newest points are kept", () => {
  let series = NO_SERIES;
  for (const at of [1, 2, 2, 1, 3, 4, 5]) series = appended(series, at, { rate: at }, FIELDS, 3);
  expect(series).toEqual({ at: [3, 4, 5], values: { rate: [3, 4, 5] } });
});

test("live numbers go on where history ends", () => {
  const history = { at: [80, 90, 100], values: { rate: [1, null, 3] } };
  const live = { at: [95, 100, 101, 102], values: { rate: [9, 9, 4, 5] } };
  expect(joined(history, live, FIELDS)).toEqual({ at: [80, 90, 100, 101, 102], values: { rate: [1, null, 3, 4, 5] } });
  expect(joined(NO_SERIES, live, FIELDS)).toEqual(live);
  expect(joined(history, NO_SERIES, FIELDS)).toEqual(history);
});

test("history that ends long before the page was opened is followed by a gap", () => {
  const history = { at: [0], values: { rate: [1] } };
  const live = { at: [60], values: { rate: [2] } };
  expect(joined(history, live, FIELDS)).toEqual({ at: [0, 1, 60], values: { rate: [1, null, 2] } });
});
