import { expect, test } from "vitest";
import { peaks, sparkPath, SPARK_POINTS_MAX } from "@/ui/chart/spark";

test("a line goes from the first value to the last, the highest one at the top", () => {
  expect(sparkPath([0, 5, 10])).toBe("M0.0 19.0L50.0 10.0L100.0 1.0");
});

test("what is not known is a gap, not zero", () => {
  expect(sparkPath([1, null, 1, 1])).toBe("M0.0 1.0M66.7 1.0L100.0 1.0");
});

test("a line needs two known values", () => {
  expect(sparkPath([])).toBe("");
  expect(sparkPath([null, 3, null])).toBe("");
});

test("equal zeros are a line at the bottom, values below zero are within the picture", () => {
  expect(sparkPath([0, 0])).toBe("M0.0 19.0L100.0 19.0");
  expect(sparkPath([-2, 2])).toBe("M0.0 19.0L100.0 1.0");
});

test("a long series keeps its peaks and draws a bounded number of points", () => {
  const values = Array.from({ length: 360 }, (_, index) => (index === 100 ? 50 : 1));
  const drawn = peaks(values, SPARK_POINTS_MAX);
  expect(drawn).toHaveLength(SPARK_POINTS_MAX);
  expect(Math.max(...drawn.map((value) => value ?? 0))).toBe(50);
  expect(peaks([null, null, 2, null], 2)).toEqual([null, 2]);
});
