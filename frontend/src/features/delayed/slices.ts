/** Pending messages that one request of a bulk cancel goes through: a few seconds. */
export const SLICE_MESSAGES = 5_000;
/** Requests of one bulk cancel; past it the slices get larger. */
export const SLICES_MAX = 100;

/** Due times `from` <= due < `to`; null: no bound. */
export interface Slice {
  from: string | null;
  to: string | null;
}

/**
 * A range cut at whole hours into pieces of about `SLICE_MESSAGES`, so that long work shows progress and can be
 * stopped. Nothing of the range is left out.
 */
export function slices(hours: readonly { hour: string; pending: number }[], { from, to }: Slice): Slice[] {
  const sorted = [...hours].sort((a, b) => Date.parse(a.hour) - Date.parse(b.hour));
  const total = sorted.reduce((sum, { pending }) => sum + pending, 0);
  const size = Math.max(SLICE_MESSAGES, Math.ceil(total / (SLICES_MAX - 1)));
  const found: Slice[] = [];
  let begin = from;
  let held = 0;
  for (const { hour, pending } of sorted) {
    const isInside = begin === null || Date.parse(hour) > Date.parse(begin);
    if (held >= size && isInside) {
      found.push({ from: begin, to: hour });
      begin = hour;
      held = 0;
    }
    held += pending;
  }
  found.push({ from: begin, to });
  return found;
}
