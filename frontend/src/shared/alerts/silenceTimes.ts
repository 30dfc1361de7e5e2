/** How long a silence may last: the API's limit. */
export const SILENCE_DAYS_MAX = 30;

const MINUTE_MS = 60_000;

/** The usual ones, from "while I restart it" to "until next week". */
export const PRESETS = [
  { id: "15m", minutes: 15 },
  { id: "1h", minutes: 60 },
  { id: "4h", minutes: 240 },
  { id: "1d", minutes: 1_440 },
  { id: "7d", minutes: 10_080 },
] as const;

/** An instant of one's own choice instead of a preset. */
export const UNTIL = "until";

/**
 * When a silence ends that begins now: a preset's time from now, or the instant that was chosen; null when there is
 * none (yet).
 */
export function endsAt(choice: string, until: string | null, nowMs: number): string | null {
  if (choice === UNTIL) return until;
  const preset = PRESETS.find(({ id }) => id === choice);
  return preset ? new Date(nowMs + preset.minutes * MINUTE_MS).toISOString() : null;
}
