import { expect, test } from "vitest";
import { countsMessages, formatOf, gridOf, LINES_MAX, lineOf, splitOf } from "@/features/analytics/series";

const at = (minute: number) => `2026-11-21T10:0${minute}:00Z`;
const first = Date.parse(at(0)) / 1000;

test("a step without a row is a gap, and so is a number that was not measured; zero stays zero", () => {
  const rows = [
    { at: at(0), lag: 5 },
    { at: at(1), lag: null },
    { at: at(3), lag: 0 },
  ];
  const grid = gridOf(first, first + 240, 60);
  expect(grid).toEqual([first, first + 60, first + 120, first + 180]);
  expect(lineOf(rows, grid, "lag", 1)).toEqual([5, null, null, 0]);
});

test("a range is shown as a whole, in whole steps", () => {
  expect(gridOf(first - 30, first + 90, 60)).toEqual([first, first + 60]);
  expect(gridOf(first, first, 60)).toEqual([]);
});

test("milliseconds become seconds, for durations", () => {
  expect(formatOf("p99_ms")).toEqual({ as: "duration", scale: 0.001 });
  expect(lineOf([{ at: at(0), p99_ms: 250 }], [first], "p99_ms", 0.001)).toEqual([0.25]);
});

test.each([
  ["lag_messages_max", "count"],
  ["sent_bytes_per_second_mean", "bytes"],
  ["sent_messages_per_second_max", "rate"],
  ["time_lag_seconds_last", "duration"],
  ["drain_seconds_high", "duration"],
  ["share_ratio", "percent"],
  ["max_mean_ratio", "rate"],
  ["disk_used_bytes_last", "bytes"],
])("%s is a %s", (column, as) => {
  expect(formatOf(column).as).toBe(as);
});

test.each([
  ["lag_messages_max", true],
  ["messages", true],
  ["sent_messages_per_second_max", false],
  ["consumers_count", false],
])("whether %s counts messages: %s", (column, expected) => {
  expect(countsMessages(column)).toBe(expected);
});

test("split: the largest first; nothing of a cause in a step that others have is zero, a step nobody has is a gap", () => {
  const rows = [
    { at: at(0), cause: "Timeout", messages: 1 },
    { at: at(0), cause: "Refused", messages: 4 },
    { at: at(2), cause: "Refused", messages: 2 },
  ];
  expect(splitOf(rows, gridOf(first, first + 180, 60), "cause", "messages")).toEqual([
    { name: "Refused", values: [4, null, 2] },
    { name: "Timeout", values: [1, null, 0] },
  ]);
});

test("split: what is too much for a chart is added up", () => {
  const rows = Array.from({ length: 10 }, (_, index) => ({ at: at(0), cause: `c${index}`, messages: 10 - index }));
  const lines = splitOf(rows, [first], "cause", "messages");
  expect(lines).toHaveLength(LINES_MAX);
  expect(lines.at(-1)).toEqual({ name: null, values: [4 + 3 + 2 + 1] });
});
