import type { Row } from "@/features/analytics/queries";
import { numberIn, textIn } from "@/features/analytics/series";

/** What nulls of forecasts mean. Pure. */

/** The growth that a time until a disk is full follows from. */
const GROWTH_OF: Readonly<Record<string, string>> = {
  full_seconds_low: "growth_bytes_per_second_high",
  full_seconds_mid: "growth_bytes_per_second_mid",
  full_seconds_high: "growth_bytes_per_second_low",
};

/** Whether a forecast has a class: there is something to forecast. */
function hasClass(row: Row): boolean {
  return !["", "none"].includes(textIn(row, "case_class"));
}

/** Whether there is an estimate, but too few forecasts came due for an interval. */
export function isLearning(row: Row): boolean {
  const isEstimated = hasClass(row) || numberIn(row, "growth_bytes_per_second_mid") !== null;
  return textIn(row, "outlook") === "unknown" && isEstimated;
}

/** What a number that is null stands for; undefined: it was not measured. */
export function meaningOfNull(row: Row, column: string): "over_a_day" | "never" | undefined {
  const growth = GROWTH_OF[column];
  if (growth !== undefined) return numberIn(row, growth) === null ? undefined : "never";
  const isKnown = column === "drain_seconds_mid" || textIn(row, "outlook") !== "unknown";
  return column.startsWith("drain_seconds") && hasClass(row) && isKnown ? "over_a_day" : undefined;
}
