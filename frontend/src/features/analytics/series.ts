import type { Row } from "@/features/analytics/queries";
import type { Format } from "@/ui/measure/Measured";

/** Rows of a table as columns of a chart: a place for every step, null where there is no row or no number. */

/** Lines of a split chart; what comes behind is added up in one of its own. */
export const LINES_MAX = 7;
const BOUNDS = /_(min|max|mean|last|low|mid|high)$/;
const MS = 0.001;
const DAY_SECONDS = 86_400;

/** How a column's numbers are shown, by the unit in its name; `scale` makes of them what the format takes. */
export function formatOf(column: string): { as: Format; scale: number } {
  const name = column.replace(BOUNDS, "");
  // A disk grows too slowly for seconds.
  if (name === "growth_bytes_per_second") return { as: "bytes", scale: DAY_SECONDS };
  if (name.endsWith("bytes_per_second") || name.endsWith("bytes")) return { as: "bytes", scale: 1 };
  if (name.endsWith("_per_second")) return { as: "rate", scale: 1 };
  if (name.endsWith("seconds")) return { as: "duration", scale: 1 };
  if (name.endsWith("_ms")) return { as: "duration", scale: MS };
  if (name === "share_ratio" || name === "interval_ratio") return { as: "percent", scale: 1 };
  if (name.endsWith("_ratio") || name === "score" || name === "attempts" || column === "attempts_mean") {
    return { as: "rate", scale: 1 };
  }
  return { as: "count", scale: 1 };
}

/** Whether a column counts messages. */
export function countsMessages(column: string): boolean {
  return formatOf(column).as === "count" && /(^|_)messages(_|$)/.test(column);
}

export function numberIn(row: Row, column: string): number | null {
  const value = row[column];
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

export function textIn(row: Row, column: string): string {
  const value = row[column];
  return typeof value === "string" ? value : "";
}

function secondsOf(row: Row): number {
  return Date.parse(textIn(row, "at")) / 1000;
}

/**
 * The beginnings of all steps of a range, which a chart shows as a whole. `from` and `to` in seconds since 1970, `to`
 * exclusive. Pure.
 */
export function gridOf(from: number, to: number, stepSeconds: number): number[] {
  if (stepSeconds <= 0) return [];
  const first = Math.ceil(from / stepSeconds);
  const end = Math.ceil(to / stepSeconds);
  return Array.from({ length: Math.max(0, end - first) }, (_, index) => (first + index) * stepSeconds);
}

/** One column over the grid; rows of one subject and group, so at most one a step. */
export function lineOf(
  rows: readonly Row[],
  grid: readonly number[],
  column: string,
  scale: number,
): (number | null)[] {
  const known = new Map(rows.map((row) => [secondsOf(row), numberIn(row, column)]));
  return grid.map((at) => {
    const value = known.get(at) ?? null;
    return value === null ? null : value * scale;
  });
}

/**
 * A line for each value of a column, the largest first, the rest as one. Within a step what a value has no row for is 0
 * when the step has rows of others (nothing of it happened), and a gap when it has none (nothing is known).
 */
export function splitOf(
  rows: readonly Row[],
  grid: readonly number[],
  by: string,
  column: string,
): { name: string | null; values: (number | null)[] }[] {
  const totals = new Map<string, number>();
  const known = new Map<number, Map<string, number | null>>();
  for (const row of rows) {
    const name = textIn(row, by);
    const value = numberIn(row, column);
    const at = secondsOf(row);
    totals.set(name, (totals.get(name) ?? 0) + (value ?? 0));
    const step = known.get(at) ?? new Map<string, number | null>();
    const before = step.get(name);
    step.set(name, value === null ? (before ?? null) : (before ?? 0) + value);
    known.set(at, step);
  }
  const names = [...totals].sort((a, b) => b[1] - a[1]).map(([name]) => name);
  const shown = names.length > LINES_MAX ? names.slice(0, LINES_MAX - 1) : names;
  const rest = names.slice(shown.length);
  const one = (name: string) =>
    grid.map((at) => {
      const step = known.get(at);
      if (!step) return null;
      return step.has(name) ? (step.get(name) ?? null) : 0;
    });
  const lines: { name: string | null; values: (number | null)[] }[] = shown.map((name) => ({
    name,
    values: one(name),
  }));
  if (rest.length > 0) {
    const values = rest.map(one);
    const sum = grid.map((_, index) => {
      const there = values.flatMap((line) => line[index] ?? []);
      return there.length > 0 ? there.reduce((a, b) => a + b, 0) : null;
    });
    lines.push({ name: null, values: sum });
  }
  return lines;
}
