import type { Series } from "@/ui/chart/types";

/**
 * The values of each series as they are drawn: bars stand on those of the series behind them, so that none covers
 * another; lines stay as they are. Series in front are drawn first, and show above what is drawn over them. Pure.
 */
export function stacked(series: readonly Pick<Series, "values" | "style">[]): Series["values"][] {
  let below: Series["values"] = [];
  return series
    .toReversed()
    .map(({ values, style }) => {
      if (style !== "bars") return values;
      const under = below;
      return (below = values.map((value, at) => (value ?? 0) + (under[at] ?? 0)));
    })
    .reverse();
}

/** Where `stacked` values have those that the bars of a series stand on, counted from 1; 0: nowhere. Pure. */
export function baseOf(series: readonly Pick<Series, "style">[], index: number): number {
  if (series[index]?.style !== "bars") return 0;
  return series.findIndex(({ style }, other) => other > index && style === "bars") + 1;
}
