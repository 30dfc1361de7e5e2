import { expect, test } from "vitest";
import { begun } from "@/ui/chart/TimeChart";

test("a chart begins at its first measurement, and keeps later gaps", () => {
  const series = [
    { label: "Lag", values: [null, null, 3, null, 5] },
    { label: "Time lag", values: [null, 1, 2, null, 4] },
  ];
  const shown = begun({ at: [10, 20, 30, 40, 50], series });
  expect(shown.at).toEqual([20, 30, 40, 50]);
  expect(shown.series.map(({ values }) => values)).toEqual([
    [null, 3, null, 5],
    [1, 2, null, 4],
  ]);
});

test("without a measurement it stays as it is", () => {
  const chart = { at: [10, 20], series: [{ label: "Lag", values: [null, null] }] };
  expect(begun(chart)).toBe(chart);
});
