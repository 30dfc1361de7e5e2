import { isRecord } from "@/format/values";

/** A field that an audited change made different; null where it was not there. */
export interface Difference {
  name: string;
  before: string | null;
  after: string | null;
}

function shown(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** The fields that differ between two states. A state that isn't an object counts as one field of that name. */
export function diff(before: unknown, after: unknown): Difference[] {
  const old = asFields(before);
  const now = asFields(after);
  return [...new Set([...Object.keys(old), ...Object.keys(now)])]
    .filter((name) => JSON.stringify(old[name]) !== JSON.stringify(now[name]))
    .map((name) => ({
      name,
      before: name in old ? shown(old[name]) : null,
      after: name in now ? shown(now[name]) : null,
    }));
}

function asFields(state: unknown): Record<string, unknown> {
  if (isRecord(state)) return state;
  return state === null || state === undefined ? {} : { value: state };
}
