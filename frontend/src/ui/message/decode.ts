/** What a message says, made readable without changing it. Pure. */

/** Where the usual body is. */
export const BODY = "data";
/** Properties that belong to the protocol or the console begin so. */
const SYSTEM_PREFIX = "qmq_";
/** Long texts are stored in pieces: `key#part0`, `key#part1`, … */
const PIECE = /^(.+)#part(\d+)$/;

export interface Property {
  name: string;
  value: string;
  isSystem: boolean;
}

/** The properties in the order people look for them: the body, their own by name, the system's by name. Pieces are joined. */
export function propertiesOf(raw: Readonly<Record<string, string>>): Property[] {
  const whole = new Map<string, string>();
  const pieces = new Map<string, Map<number, string>>();
  for (const [key, value] of Object.entries(raw)) {
    const [, name, number] = PIECE.exec(key) ?? [];
    if (name === undefined || number === undefined || Object.hasOwn(raw, name)) {
      whole.set(key, value);
      continue;
    }
    const found = pieces.get(name) ?? new Map<number, string>();
    pieces.set(name, found.set(Number(number), value));
  }
  for (const [name, found] of pieces) {
    const isComplete = [...found.keys()].every((number) => number < found.size);
    if (isComplete)
      whole.set(name, Array.from({ length: found.size }, (_, number) => found.get(number) ?? "").join(""));
    else for (const [number, value] of found) whole.set(`${name}#part${number}`, value);
  }
  const rank = ({ name, isSystem }: Property) => (name === BODY ? 0 : isSystem ? 2 : 1);
  return [...whole]
    .map(([name, value]) => ({ name, value, isSystem: name.startsWith(SYSTEM_PREFIX) }))
    .sort((one, other) => rank(one) - rank(other) || one.name.localeCompare(other.name));
}

/** In a line: the body, or what stands for one. */
export function preview(raw: Readonly<Record<string, string>>, charsMax = 160): string {
  const own = propertiesOf(raw).filter(({ isSystem }) => !isSystem);
  const [first] = own;
  const text = first?.name === BODY ? first.value : own.map(({ name, value }) => `${name}=${value}`).join(" ");
  const line = text.slice(0, charsMax * 2).replace(/\s+/g, " ");
  return line.length > charsMax ? `${line.slice(0, charsMax)}…` : line;
}

/** Whether a text is a JSON object or list; numbers and bare words are no documents. */
export function isJson(text: string): boolean {
  if (!/^\s*[[{]/.test(text)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/**
 * JSON text with line breaks and indents. The text itself is laid out, not what it parses to: numbers past 2^53, repeated keys
 * and their order stay as they were sent.
 */
export function prettyJson(text: string): string {
  let out = "";
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  // Strings whole, then brackets, commas and colons, then numbers and words; white space between them is dropped.
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/g) ?? [];
  tokens.forEach((token, at) => {
    if (token === "{" || token === "[") {
      depth += 1;
      out += token;
      const next = tokens[at + 1];
      if (next !== "}" && next !== "]") out += line();
    } else if (token === "}" || token === "]") {
      depth -= 1;
      const before = tokens[at - 1];
      if (before !== "{" && before !== "[") out += line();
      out += token;
    } else if (token === ",") out += token + line();
    else if (token === ":") out += ": ";
    else out += token;
  });
  return out;
}

const HEX_COLUMNS = 16;

/** The UTF-8 bytes of a text, 16 a line with their offset and what is printable of them; `bytesMax` of them at most. */
export function hexDump(text: string, bytesMax: number): { lines: string; bytes: number; isCut: boolean } {
  const all = new TextEncoder().encode(text);
  const shown = all.subarray(0, bytesMax);
  const lines: string[] = [];
  for (let at = 0; at < shown.length; at += HEX_COLUMNS) {
    const row = [...shown.subarray(at, at + HEX_COLUMNS)];
    const hex = row.map((byte) => byte.toString(16).padStart(2, "0"));
    const left = hex.slice(0, 8).join(" ").padEnd(23);
    const right = hex.slice(8).join(" ").padEnd(23);
    const readable = row.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${at.toString(16).padStart(8, "0")}  ${left}  ${right}  ${readable}`);
  }
  return { lines: lines.join("\n"), bytes: all.length, isCut: all.length > shown.length };
}
