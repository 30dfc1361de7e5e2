import { expect, test } from "vitest";
import { continued, heldAt } from "@/shared/ranges/merge";

const long = { at: [0, 60, 120, 180], values: { lag: [1, 2, 3, 4], ack_rate: [5, 6, 7, 8] } };

test("what is seen live takes the place of the range from where it begins", () => {
  expect(continued(long, { at: [120, 122], values: { lag: [30, 31] } })).toEqual({
    at: [0, 60, 120, 122],
    values: { lag: [1, 2, 30, 31], ack_rate: [5, 6, null, null] },
  });
  expect(continued(long, { at: [500], values: { lag: [9] } }).at).toEqual([0, 60, 120, 180, 500]);
  expect(continued(long, { at: [], values: {} })).toBe(long);
});

test("another series has the value of the step that contains an instant, and none outside of its steps", () => {
  expect(heldAt([-1, 0, 59, 60, 150, 239, 240], long, "lag")).toEqual([null, 1, 1, 2, 3, 4, null]);
  expect(heldAt([60, 120], { at: [0, 60], values: { lag: [null, 2] } }, "lag")).toEqual([2, null]);
  expect(heldAt([0], long, "send_rate")).toEqual([null]);
});

test("an earlier time is laid over the present one", () => {
  expect(heldAt([86_400, 86_460, 86_520], long, "lag", 86_400)).toEqual([1, 2, 3]);
});
