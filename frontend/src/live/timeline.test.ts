import { expect, test } from "vitest";
import { NO_SERIES } from "@/live/series";
import { seriesOf } from "@/live/timeline";

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
