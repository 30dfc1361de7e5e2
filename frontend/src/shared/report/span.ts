import { SPAN_DAYS_MAX } from "@/shared/ranges/range";

/** How far back events are kept. */
export const KEPT_DAYS = 90;
const DAY_MS = 86_400_000;

/** A key below `events:report.wrong.`, and the number of days that it mentions. */
export interface WrongSpan {
  key: "incomplete" | "order" | "future" | "too_long" | "too_old";
  days: number;
}

/** Why no report can be made of a span; null: one can, up to now if its end is later. Pure. */
export function wrongSpan({ from, to }: { from: string | null; to: string | null }, nowMs: number): WrongSpan | null {
  if (from === null || to === null) return { key: "incomplete", days: 0 };
  const [begin, end] = [Date.parse(from), Date.parse(to)];
  if (end <= begin) return { key: "order", days: 0 };
  if (begin >= nowMs) return { key: "future", days: 0 };
  if (end - begin > SPAN_DAYS_MAX * DAY_MS) return { key: "too_long", days: Math.ceil((end - begin) / DAY_MS) };
  if (end < nowMs - KEPT_DAYS * DAY_MS) return { key: "too_old", days: KEPT_DAYS };
  return null;
}
