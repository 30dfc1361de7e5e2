/** The longest time that one report covers. */
export const SPAN_DAYS_MAX = 31;
/** How far back events are kept. */
export const KEPT_DAYS = 90;
const DAY_MS = 86_400_000;

export interface Span {
  /** RFC 3339. */
  from: string;
  to: string;
}

/** A key below `events:report.wrong.`, and the number of days that it mentions. */
export interface WrongSpan {
  key: "incomplete" | "order" | "too_long" | "too_old";
  days: number;
}

/** Why no report can be made of a span; null: one can. Pure. */
export function wrongSpan({ from, to }: { from: string | null; to: string | null }, nowMs: number): WrongSpan | null {
  if (from === null || to === null) return { key: "incomplete", days: 0 };
  const [begin, end] = [Date.parse(from), Date.parse(to)];
  if (end <= begin) return { key: "order", days: 0 };
  if (end - begin > SPAN_DAYS_MAX * DAY_MS) return { key: "too_long", days: Math.ceil((end - begin) / DAY_MS) };
  if (end < nowMs - KEPT_DAYS * DAY_MS) return { key: "too_old", days: KEPT_DAYS };
  return null;
}
