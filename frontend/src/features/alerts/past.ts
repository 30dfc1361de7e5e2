import type { RulePreviewed } from "@/features/alerts/queries";

const DAY_SECONDS = 86_400;
/** What a chart's step and the time of a request take away is no part that is missing. */
const TOLERANCE_SECONDS = 600;

/** How long the stored values cover together; null: there are none. `isShort`: less than the day that was asked for. */
export function spanOf(spans: RulePreviewed["past"]["spans"]): { seconds: number; isShort: boolean } | null {
  if (spans.length === 0) return null;
  const milliseconds = spans.reduce((sum, { begin, end }) => sum + Date.parse(end) - Date.parse(begin), 0);
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  return { seconds, isShort: seconds < DAY_SECONDS - TOLERANCE_SECONDS };
}
