import { expect, test } from "vitest";
import { baseOf, stacked } from "@/ui/chart/stack";

const bars = (...values: number[]) => ({ style: "bars" as const, values });

test("bars stand on those of the series behind them, and lines stay as they are", () => {
  const line = { style: "line" as const, values: [7, null] };
  const series = [bars(1, 0), line, bars(2, 3), bars(4, 0)];
  expect(stacked(series)).toEqual([
    [7, 3],
    [7, null],
    [6, 3],
    [4, 0],
  ]);
  expect(series.map((_, index) => baseOf(series, index))).toEqual([3, 0, 4, 0]);
});
