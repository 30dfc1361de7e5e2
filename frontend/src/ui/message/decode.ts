/** What a message says, made readable without changing it. Pure. */

/** Where the usual body is. */
export const BODY = "data";
/** How the body is written, if it is not text. */
export const ENCODING = "qmq_contentEncoding";
/** Properties that belong to the protocol or the console begin so. */
const SYSTEM_PREFIX = "qmq_";
/** Long texts are stored in pieces: `key#part0`, `key#part1`, … */
const PIECE = /^(.+)#part(\d+)$/;

export interface Property {
  name: string;
  value: string;
  isSystem: boolean;
}

/**
 * The properties in the order people look for them: the body, their own by name, the system's by name. Pieces are
 * joined.
 */
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

/** What of a message is in its line. */
export interface Preview {
  /** The beginning of the body; "" without one. */
  body: string;
  /** Its other properties, `name=value`, as far as there is room. */
  rest: string;
}

/** The beginning of a message, on one line: its body, then its own properties. */
export function preview(raw: Readonly<Record<string, string>>, charsMax = 300): Preview {
  // Only beginnings are shown, so pieces are not joined.
  const first = `${BODY}#part0`;
  const line = lineOf(raw[BODY] ?? raw[first] ?? "", charsMax);
  const body = /^[[{]/.test(line) ? readable(line) : line;
  let rest = "";
  for (const name of Object.keys(raw).sort()) {
    if (body.length + rest.length >= charsMax) break;
    if (name === BODY || name.startsWith(`${BODY}#part`) || name.startsWith(SYSTEM_PREFIX)) continue;
    rest += `${rest && " "}${name}=${lineOf(raw[name] ?? "", charsMax)}`;
  }
  return { body, rest: lineOf(rest, Math.max(0, charsMax - body.length)) };
}

/** An escape of JSON: a pair of surrogates, a code, or another one, which is passed over as a whole. */
const ESCAPE = /\\(?:u(d[89ab][\da-f]{2})\\u(d[c-f][\da-f]{2})|u([\da-f]{4})|.)/gi;
const VISIBLE = /^[\p{L}\p{M}\p{N}\p{P}\p{S}]$/u;

/** JSON text with the characters that its codes stand for: 北京 instead of `\u5317\u4eac`. Other codes stay. */
export function readable(json: string): string {
  return json.replace(ESCAPE, (escape, ...codes: (string | undefined)[]) => {
    const text = String.fromCharCode(...codes.slice(0, 3).flatMap((code) => (code ? [parseInt(code, 16)] : [])));
    return VISIBLE.test(text) && text !== '"' && text !== "\\" ? text : escape;
  });
}

function lineOf(text: string, charsMax: number): string {
  const line = text.slice(0, charsMax * 2).replace(/\s+/g, " ");
  return line.length > charsMax ? `${line.slice(0, charsMax)}…` : line;
}

/** Characters of a value in a cell that shows a few lines of it. */
const CELL_CHARS_MAX = 1_000;

/** The beginning of a value, for a cell. */
export function cell(value: string): string {
  return value.length > CELL_CHARS_MAX ? `${value.slice(0, CELL_CHARS_MAX)}…` : value;
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

/** A text as it is shown: its first part, when the whole is too long. */
export interface Shown {
  text: string;
  isCut: boolean;
}

export function cut(text: string, charsMax: number): Shown {
  return { text: text.slice(0, charsMax), isCut: text.length > charsMax };
}

/** Levels that are indented; lines below are indented as the deepest of these. */
const INDENTS_MAX = 32;
/** A string whole, a bracket, comma or colon, or a number or word; white space between them is dropped. */
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|[[\]{},:]|[^\s[\]{},:"]+/g;

/**
 * JSON text with line breaks and indents, up to `charsMax`: the work is bounded however deep, wide or long the text is.
 * The text itself is laid out, not what it parses to: numbers past 2^53, repeated keys and their order stay as they
 * were sent.
 */
export function prettyJson(text: string, charsMax: number): Shown {
  let out = "";
  let depth = 0;
  let isOpened = false;
  const line = () => `\n${"  ".repeat(Math.min(depth, INDENTS_MAX))}`;
  for (const [token] of text.matchAll(TOKEN)) {
    const isClosing = token === "}" || token === "]";
    if (isClosing) depth -= 1;
    // An empty object or list stays on its line.
    if (isOpened !== isClosing) out += line();
    out += token;
    isOpened = token === "{" || token === "[";
    if (isOpened) depth += 1;
    else if (token === ",") out += line();
    else if (token === ":") out += " ";
    if (out.length > charsMax) break;
  }
  return cut(out, charsMax);
}

const HEX_COLUMNS = 16;

/** The bytes that base64 stands for; null if it is none. */
function bytesOf(base64: string): Uint8Array | null {
  try {
    return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  } catch {
    return null;
  }
}

/**
 * The UTF-8 bytes of a text, or those that it stands for in base64, 16 a line with their offset and what is printable
 * of them; `bytesMax` of them at most.
 */
export function hexDump(text: string, bytesMax: number, isBase64 = false): Shown {
  // A character has at least one byte; four characters of base64 have three.
  const begin =
    (isBase64 ? bytesOf(text.slice(0, Math.ceil((bytesMax + 1) / 3) * 4)) : null) ??
    new TextEncoder().encode(text.slice(0, bytesMax));
  const shown = begin.subarray(0, bytesMax);
  const lines: string[] = [];
  for (let at = 0; at < shown.length; at += HEX_COLUMNS) {
    const row = [...shown.subarray(at, at + HEX_COLUMNS)];
    const hex = row.map((byte) => byte.toString(16).padStart(2, "0"));
    const left = hex.slice(0, 8).join(" ").padEnd(23);
    const right = hex.slice(8).join(" ").padEnd(23);
    const readable = row.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${at.toString(16).padStart(8, "0")}  ${left}  ${right}  ${readable}`);
  }
  return { text: lines.join("\n"), isCut: (!isBase64 && text.length > bytesMax) || begin.length > bytesMax };
}
