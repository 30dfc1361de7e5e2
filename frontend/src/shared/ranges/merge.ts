import type { Series } from "@/live/series";

/** Series of different steps in one chart. Pure. */

/** A long range up to where what is seen live begins, and that behind it. */
export function continued(long: Series, live: Series): Series {
  const start = live.at[0];
  if (start === undefined) return long;
  const found = long.at.findIndex((at) => at >= start);
  const end = found < 0 ? long.at.length : found;
  return {
    at: [...long.at.slice(0, end), ...live.at],
    values: Object.fromEntries(
      Object.entries(long.values).map(([field, values]) => [
        field,
        [...values.slice(0, end), ...(live.values[field] ?? live.at.map(() => null))],
      ]),
    ),
  };
}

/**
 * A field of another series at these instants, `offset` seconds earlier: the value of the step that contains each; null
 * outside of its steps.
 */
export function heldAt(at: readonly number[], other: Series, field: string, offset = 0): (number | null)[] {
  const values = other.values[field] ?? [];
  let index = -1;
  return at.map((seconds) => {
    const wanted = seconds - offset;
    while ((other.at[index + 1] ?? Infinity) <= wanted) index += 1;
    const begin = other.at[index];
    if (begin === undefined) return null;
    const length = index > 0 ? begin - (other.at[index - 1] ?? begin) : Infinity;
    const isWithin = other.at[index + 1] !== undefined || wanted < begin + length;
    return isWithin ? (values[index] ?? null) : null;
  });
}
