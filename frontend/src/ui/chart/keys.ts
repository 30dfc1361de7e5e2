/** What keys do to a chart. Pure. */

export interface Range {
  min: number;
  max: number;
}

const PAGE = 10;
/** Seconds: nearer one can't zoom. */
const NARROWEST = 5;

/** The point that a key moves the pointer to; undefined when it does not. */
export function pointedAfter(key: string, now: number, count: number): number | undefined {
  const wanted: Record<string, number> = {
    ArrowLeft: now - 1,
    ArrowRight: now + 1,
    PageUp: now - PAGE,
    PageDown: now + PAGE,
    Home: 0,
    End: count - 1,
  };
  const index = wanted[key];
  return index === undefined ? undefined : Math.min(Math.max(index, 0), count - 1);
}

/**
 * The range that a key zooms to, around the pointer: half or twice as wide; null is all, undefined when the key does
 * not zoom.
 */
export function zoomedAfter(
  key: string,
  at: readonly number[],
  pointed: number,
  now: Range | null,
): Range | null | undefined {
  if (key === "0" || (key === "Escape" && now !== null)) return null;
  const factor = key === "+" || key === "=" ? 0.5 : key === "-" ? 2 : undefined;
  const [first, last, centre] = [at[0], at.at(-1), at[pointed]];
  if (factor === undefined || first === undefined || last === undefined || centre === undefined) return undefined;
  const wide = Math.max(((now?.max ?? last) - (now?.min ?? first)) * factor, NARROWEST);
  if (wide >= last - first) return null;
  const min = Math.min(Math.max(centre - wide / 2, first), last - wide);
  return { min, max: min + wide };
}
