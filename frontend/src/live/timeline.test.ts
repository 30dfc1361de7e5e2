import { expect, test } from "vitest";
import { NO_SERIES } from "@/live/series";
import { fieldAt, seriesOf, sumOf } from "@/live/timeline";

const at = ["2026-11-21T10:00:00Z", "2026-11-21T10:00:10Z", "2026-11-21T10:00:20Z"];
const begin = Date.parse("2026-11-21T10:00:00Z") / 1000;

test("a history begins where something was measured; later gaps stay", () => {
  const found = seriesOf({ at, fields: { lag: [null, 4, null], rate: [null, null, 2] } });
  expect(found).toEqual({ at: [begin + 10, begin + 20], values: { lag: [4, null], rate: [null, 2] } });
});

test("zero is a number", () => {
  expect(seriesOf({ at, fields: { lag: [0, null, null] } }).at).toHaveLength(3);
});

test("nothing measured, or nothing heard yet, is nothing to draw", () => {
  expect(seriesOf({ at, fields: { lag: [null, null, null] } })).toEqual(NO_SERIES);
  expect(seriesOf(undefined)).toEqual(NO_SERIES);
});

test("two series are laid over each other by their instants", () => {
  const other = { at: [1, 3, 4], values: { rate: [10, 30, null] } };
  expect(fieldAt([1, 2, 3, 4], other, "rate")).toEqual([10, null, 30, null]);
  expect(fieldAt([1, 2], other, "none")).toEqual([null, null]);
});

test("a sum with an unknown part is unknown", () => {
  const series = { at: [1, 2, 3], values: { backlog: [1, null, 5], in_flight: [2, 3, null] } };
  expect(sumOf(series, "backlog", "in_flight")).toEqual([3, null, null]);
  expect(sumOf(series, "none", "in_flight")).toEqual([]);
});
