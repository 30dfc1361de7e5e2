/** State of a live feed: sections of entries by key, as docs/live.md has it. Pure. */
export type Entry = Readonly<Record<string, unknown>>;
export type Section = Readonly<Record<string, Entry>>;
export type LiveState = Readonly<Record<string, Section>>;
export type Delta = Readonly<Record<string, { gone?: readonly string[]; set?: Section }>>;

/**
 * The state after a delta: `gone` first, then `set` merges fields into entries. What did not change stays the same
 * object.
 */
export function applyDelta(state: LiveState, delta: Delta): LiveState {
  const next: Record<string, Section> = { ...state };
  let isChanged = false;
  for (const [name, { gone = [], set = {} }] of Object.entries(delta)) {
    if (gone.length === 0 && Object.keys(set).length === 0) continue;
    const section: Record<string, Entry> = { ...(next[name] ?? {}) };
    for (const key of gone) Reflect.deleteProperty(section, key);
    for (const [key, fields] of Object.entries(set)) section[key] = { ...section[key], ...fields };
    next[name] = section;
    isChanged = true;
  }
  return isChanged ? next : state;
}
