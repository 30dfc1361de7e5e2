/** Values of the API that may be anything. Pure. */

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A text; "" for anything else. */
export function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** A number; null for anything else. */
export function numberOf(value: unknown): number | null {
  return typeof value === "number" ? value : null;
}

export function isEmpty(value: unknown): boolean {
  return value === undefined || value === null || value === "" || (Array.isArray(value) && value.length === 0);
}

/** In a line: a dash for what is empty. */
export function lineOf(value: unknown): string {
  if (isEmpty(value)) return "—";
  if (Array.isArray(value)) return value.map(lineOf).join(", ");
  return typeof value === "string" ? value : JSON.stringify(value);
}

interface Difference {
  name: string;
  before: unknown;
  after: unknown;
}

/** The fields that differ between two states. What was not there and stays empty is no difference. */
export function differences(before: unknown, after: unknown): Difference[] {
  const old = isRecord(before) ? before : {};
  const now = isRecord(after) ? after : {};
  return [...new Set([...Object.keys(old), ...Object.keys(now)])]
    .map((name) => ({ name, before: old[name], after: now[name] }))
    .filter((one) => JSON.stringify(one.before) !== JSON.stringify(one.after))
    .filter((one) => !(isEmpty(one.before) && isEmpty(one.after)));
}
