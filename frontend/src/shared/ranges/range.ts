/** The time that a page's charts show: kept in the address as `range`, a preset or "FROM/TO". Pure. */

const HOUR_SECONDS = 3_600;
export const PRESETS = {
  "1h": HOUR_SECONDS,
  "6h": 6 * HOUR_SECONDS,
  "24h": 24 * HOUR_SECONDS,
  "7d": 168 * HOUR_SECONDS,
  "30d": 720 * HOUR_SECONDS,
};
export type Preset = keyof typeof PRESETS;
export const PRESET_FIRST: Preset = "1h";
export const CUSTOM = "custom";
/** The longest span. */
export const SPAN_DAYS_MAX = 30;
/** Up to this length charts continue live. */
const LIVE_SECONDS_MAX = PRESETS["6h"];

/** From one instant to another, RFC 3339 in UTC. */
export interface Span {
  from: string;
  to: string;
}

export interface Range {
  preset: Preset | typeof CUSTOM;
  seconds: number;
  /** Null: it ends now. */
  span: Span | null;
}

export const LAST_HOUR: Range = { preset: PRESET_FIRST, seconds: HOUR_SECONDS, span: null };

function isPreset(text: string): text is Preset {
  return Object.hasOwn(PRESETS, text);
}

/** What an address says; whatever is no range is the last hour. */
export function rangeOf(text: string | undefined): Range {
  if (text === undefined) return LAST_HOUR;
  if (isPreset(text)) return { preset: text, seconds: PRESETS[text], span: null };
  const [from = Number.NaN, to = Number.NaN] = text.split("/").map((end) => Date.parse(end));
  if (Number.isNaN(from) || Number.isNaN(to) || from >= to) return LAST_HOUR;
  const span = { from: new Date(from).toISOString(), to: new Date(to).toISOString() };
  return { preset: CUSTOM, seconds: (to - from) / 1000, span };
}

/** A span as the address keeps it. */
export function textOfSpan({ from, to }: Span): string {
  return `${from}/${to}`;
}

/** The range as a span, at this time. */
export function spanAt({ seconds, span }: Range, nowMs: number): Span {
  return span ?? { from: new Date(nowMs - seconds * 1000).toISOString(), to: new Date(nowMs).toISOString() };
}

/** Why a span can't be shown, as the key of a text. */
export function spanProblem({ from, to }: Span, nowMs: number): "order" | "long" | "future" | undefined {
  const [begin, end] = [Date.parse(from), Date.parse(to)];
  if (end <= begin) return "order";
  if (end > nowMs) return "future";
  return end - begin > SPAN_DAYS_MAX * 86_400_000 ? "long" : undefined;
}

/** Whether a chart of the range continues live. */
export function isLive({ seconds, span }: Range): boolean {
  return span === null && seconds <= LIVE_SECONDS_MAX;
}
