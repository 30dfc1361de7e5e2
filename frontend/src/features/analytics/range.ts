/** The time range that is shown: a duration until now, or from one instant to another. Kept in the address. */

const HOUR_MS = 3_600_000;
export const PRESETS = {
  "1h": HOUR_MS,
  "24h": 24 * HOUR_MS,
  "7d": 168 * HOUR_MS,
  "30d": 720 * HOUR_MS,
  "90d": 2160 * HOUR_MS,
};
export type Preset = keyof typeof PRESETS;
export const CUSTOM = "custom";
export const PRESET_FIRST: Preset = "24h";

export interface Range {
  preset: Preset | typeof CUSTOM;
  from: string;
  to: string;
}

function isPreset(text: string | undefined): text is Preset {
  return text !== undefined && text in PRESETS;
}

function instant(text: string | undefined): number | null {
  const ms = text ? Date.parse(text) : Number.NaN;
  return Number.isNaN(ms) ? null : ms;
}

/** What an address says, at this time; whatever makes no sense there is the first preset. */
export function rangeOf(search: Readonly<Record<string, string>>, nowMs: number): Range {
  const from = instant(search.from);
  const to = instant(search.to);
  if (search.range === CUSTOM && from !== null && to !== null && from < to) {
    return { preset: CUSTOM, from: new Date(from).toISOString(), to: new Date(to).toISOString() };
  }
  const preset = isPreset(search.range) ? search.range : PRESET_FIRST;
  return {
    preset,
    from: new Date(nowMs - PRESETS[preset]).toISOString(),
    to: new Date(nowMs).toISOString(),
  };
}
