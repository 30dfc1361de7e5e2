import type { Series as Columns } from "@/live/series";
import type { Series } from "@/ui/chart/types";
import type { Format } from "@/ui/measure/Measured";

/** A field of the history, and how it is drawn. */
export type Line = readonly [field: string, as: Format, look?: Pick<Series, "axis" | "style" | "colour">];

/** The lines of a chart; those of a field that is not there are unknown. Pure. */
export function seriesOfLines(
  lines: readonly Line[],
  { at, values }: Columns,
  labelOf: (field: string) => string,
): readonly Series[] {
  return lines.map(([field, as, look]) => ({
    label: labelOf(field),
    values: values[field] ?? at.map(() => null),
    as,
    ...look,
  }));
}
