import { expect, test } from "vitest";
import { SLICE_MESSAGES, slices, SLICES_MAX } from "@/features/delayed/slices";

const hour = (n: number, pending: number) => ({ hour: new Date(n * 3_600_000).toISOString(), pending });

test("few messages are one piece, whatever the range", () => {
  expect(slices([hour(1, 10), hour(900, 10)], { from: null, to: null })).toEqual([{ from: null, to: null }]);
  expect(slices([], { from: hour(1, 0).hour, to: null })).toEqual([{ from: hour(1, 0).hour, to: null }]);
});

test("pieces follow on each other and cover the whole range", () => {
  const hours = [3, 1, 2, 4].map((n) => hour(n, SLICE_MESSAGES));
  const found = slices(hours, { from: "1970-01-01T01:20:00.000Z", to: "1970-01-01T04:30:00.000Z" });
  expect(found).toEqual([
    { from: "1970-01-01T01:20:00.000Z", to: hour(2, 0).hour },
    { from: hour(2, 0).hour, to: hour(3, 0).hour },
    { from: hour(3, 0).hour, to: hour(4, 0).hour },
    { from: hour(4, 0).hour, to: "1970-01-01T04:30:00.000Z" },
  ]);
});

test("there are never more than SLICES_MAX", () => {
  const hours = Array.from({ length: 1_000 }, (_, n) => hour(n + 1, SLICE_MESSAGES));
  expect(slices(hours, { from: null, to: null }).length).toBeLessThanOrEqual(SLICES_MAX);
});
