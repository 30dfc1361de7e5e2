/** Points that a sparkline draws at most: more would share pixels. */
export const SPARK_POINTS_MAX = 60;
export const SPARK_WIDTH = 100;
export const SPARK_HEIGHT = 20;

/** The highest value of each of at most `limit` equal parts; null for a part without values. Pure. */
export function peaks(values: readonly (number | null)[], limit: number): (number | null)[] {
  const parts = Math.min(limit, values.length);
  return Array.from({ length: parts }, (_, part) => {
    const begin = Math.floor((part * values.length) / parts);
    const end = Math.floor(((part + 1) * values.length) / parts);
    const known = values.slice(begin, end).filter((value) => value !== null);
    return known.length > 0 ? Math.max(...known) : null;
  });
}

/**
 * The line of a sparkline as an SVG path, from 0 (or the lowest value below 0) to the highest value. It has a gap where
 * a value is null; "" with fewer than two known values. Pure.
 */
export function sparkPath(values: readonly (number | null)[]): string {
  const drawn = peaks(values, SPARK_POINTS_MAX);
  const known = drawn.filter((value) => value !== null);
  if (known.length < 2) return "";
  const low = Math.min(0, ...known);
  const span = Math.max(...known) - low || 1;
  const step = SPARK_WIDTH / (drawn.length - 1);
  let isLine = false;
  return drawn
    .map((value, index) => {
      if (value === null) {
        isLine = false;
        return "";
      }
      // Half a pixel of the line's width stays within the picture.
      const y = SPARK_HEIGHT - 1 - ((value - low) / span) * (SPARK_HEIGHT - 2);
      const command = isLine ? "L" : "M";
      isLine = true;
      return `${command}${(index * step).toFixed(1)} ${y.toFixed(1)}`;
    })
    .join("");
}
