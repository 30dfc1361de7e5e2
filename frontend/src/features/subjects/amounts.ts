/** Amounts as people type them: "10 MiB", "3 d". Pure. */

const BYTES: Readonly<Record<string, number>> = {
  "": 1,
  b: 1,
  k: 1024,
  kib: 1024,
  kb: 1000,
  m: 1024 ** 2,
  mib: 1024 ** 2,
  mb: 1000 ** 2,
  g: 1024 ** 3,
  gib: 1024 ** 3,
  gb: 1000 ** 3,
};
const HOURS: Readonly<Record<string, number>> = { "": 1, min: 1 / 60, h: 1, d: 24, w: 168 };

function parse(text: string, units: Readonly<Record<string, number>>): number | null {
  const found = /^(\d+(?:\.\d+)?)\s*([a-z]*)$/.exec(text.trim().toLowerCase());
  const factor = found ? units[found[2] ?? ""] : undefined;
  return factor === undefined ? null : Number(found?.[1]) * factor;
}

/** Bytes; null: not understood. */
export function parseBytes(text: string): number | null {
  const value = parse(text, BYTES);
  return value === null ? null : Math.round(value);
}

/** Hours; null: not understood. */
export function parseHours(text: string): number | null {
  return parse(text, HOURS);
}

/** A count of messages: "1000", "1 000", "1,000"; null: not understood. */
export function parseCount(text: string): number | null {
  const plain = text.replace(/[\s,]/g, "");
  return /^\d+$/.test(plain) ? Number(plain) : null;
}

function written(value: number, units: readonly (readonly [string, number])[], plain: string): string {
  const [name, factor] = units.find(([, size]) => value >= size && value % size === 0) ?? [plain, 1];
  return `${value / factor} ${name}`;
}

/** What `parseBytes` reads back as the same number. */
export function bytesText(value: number): string {
  return written(
    value,
    [
      ["GiB", 1024 ** 3],
      ["MiB", 1024 ** 2],
      ["KiB", 1024],
    ],
    "B",
  );
}

/** What `parseHours` reads back as the same number. */
export function hoursText(value: number): string {
  return written(value, [["d", 24]], "h");
}
