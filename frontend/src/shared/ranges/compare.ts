/** Two spans of the same length: what is compared is in the address as `compare`. Pure. */
import { spanAt, type Range, type Span } from "@/shared/ranges/range";

const DAY_MS = 86_400_000;
/** The span right before, a day earlier, a week earlier; an instant stands for what was before and after it. */
export const COMPARED = ["before", "day", "week"] as const;
export type Compared = (typeof COMPARED)[number] | { around: string };

/** What an address says; undefined: nothing is compared. */
export function comparedOf(text: string | undefined): Compared | undefined {
  const known = COMPARED.find((one) => one === text);
  if (known !== undefined || !text) return known;
  const at = Date.parse(text);
  return Number.isNaN(at) ? undefined : { around: new Date(at).toISOString() };
}

const span = (from: number, to: number): Span => ({
  from: new Date(from).toISOString(),
  to: new Date(to).toISOString(),
});

/** The later span, and the earlier one that it is compared with; null: the instant is in the future. */
export function spansOf(range: Range, compared: Compared, nowMs: number): { later: Span; earlier: Span } | null {
  if (typeof compared === "object") {
    const at = Date.parse(compared.around);
    const length = Math.min(range.seconds * 1000, nowMs - at);
    return length > 0 ? { later: span(at, at + length), earlier: span(at - length, at) } : null;
  }
  const later = spanAt(range, nowMs);
  const [from, to] = [Date.parse(later.from), Date.parse(later.to)];
  const back = { before: to - from, day: DAY_MS, week: 7 * DAY_MS }[compared];
  return { later, earlier: span(from - back, to - back) };
}
