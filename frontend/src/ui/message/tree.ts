/**
 * JSON text as a tree that is taken apart only where someone looks: a node is a range of the text. So numbers past
 * 2^53, repeated keys and their order stay as they were sent, and a text of any depth or width costs what is shown of
 * it. Pure; the text has to be valid JSON.
 */

export interface JsonNode {
  /** Its key in an object, as the text it means; its place in a list; null: the whole text. */
  key: string | number | null;
  kind: "object" | "list" | "string" | "number" | "word";
  /** The first character of its value, and the one behind it. */
  begin: number;
  end: number;
}

/** The children of a node, and where in the text more of them begin; null: there are no more. */
export interface Children {
  nodes: readonly JsonNode[];
  next: { at: number; index: number } | null;
}

const QUOTE = 34;
const BACKSLASH = 92;
const COMMA = 44;
const COLON = 58;
const OPENING: ReadonlySet<number> = new Set([91, 123]);
const CLOSING: ReadonlySet<number> = new Set([93, 125]);

function skipSpace(text: string, from: number): number {
  let at = from;
  for (let code = text.charCodeAt(at); code === 32 || (code >= 9 && code <= 13); code = text.charCodeAt(at)) at += 1;
  return at;
}

/** The place behind the string that begins here. */
function behindString(text: string, begin: number): number {
  for (let at = begin + 1; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === BACKSLASH) at += 1;
    else if (code === QUOTE) return at + 1;
  }
  return text.length;
}

/** The place behind the value that begins here. */
function behindValue(text: string, begin: number): number {
  const first = text.charCodeAt(begin);
  if (first === QUOTE) return behindString(text, begin);
  let depth = 0;
  for (let at = begin; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = behindString(text, at) - 1;
    else if (OPENING.has(code)) depth += 1;
    else if (CLOSING.has(code)) {
      depth -= 1;
      if (depth === 0) return at + 1;
      if (depth < 0) return at;
    } else if (depth === 0 && (code === COMMA || code <= 32)) return at;
  }
  return text.length;
}

function kindAt(text: string, at: number): JsonNode["kind"] {
  const letter = text.charAt(at);
  if (letter === "{") return "object";
  if (letter === "[") return "list";
  if (letter === '"') return "string";
  return /[tfn]/.test(letter) ? "word" : "number";
}

export function rootOf(text: string): JsonNode {
  const begin = skipSpace(text, 0);
  return { key: null, kind: kindAt(text, begin), begin, end: behindValue(text, begin) };
}

export function hasChildren(text: string, { kind, begin }: JsonNode): boolean {
  return (kind === "object" || kind === "list") && !CLOSING.has(text.charCodeAt(skipSpace(text, begin + 1)));
}

/** At most `max` children of a node, from where an earlier answer ended. */
export function childrenOf(text: string, node: JsonNode, max: number, from?: { at: number; index: number }): Children {
  const nodes: JsonNode[] = [];
  if (!hasChildren(text, node)) return { nodes, next: null };
  let { at, index } = from ?? { at: node.begin + 1, index: 0 };
  while (nodes.length < max) {
    at = skipSpace(text, at);
    let key: string | number = index;
    if (node.kind === "object") {
      const keyEnd = behindString(text, at);
      key = JSON.parse(text.slice(at, keyEnd)) as string;
      at = skipSpace(text, keyEnd);
      if (text.charCodeAt(at) === COLON) at = skipSpace(text, at + 1);
    }
    const end = behindValue(text, at);
    nodes.push({ key, kind: kindAt(text, at), begin: at, end });
    index += 1;
    at = skipSpace(text, end);
    if (text.charCodeAt(at) !== COMMA) return { nodes, next: null };
    at += 1;
  }
  return { nodes, next: { at, index } };
}

/** Rows that are open at first, and what finding them may cost. */
const OPEN_ROWS_MAX = 120;
const OPEN_LEVELS_MAX = 6;
const OPEN_CHARS_MAX = 24_000_000;

/** Which nodes are open at first, by where they begin: level by level, until the tree is long. */
export function openAtFirst(text: string, childrenMax: number): ReadonlySet<number> {
  const open = new Set<number>();
  let rows = 1;
  let chars = 0;
  let level: readonly JsonNode[] = [rootOf(text)];
  for (let depth = 0; depth < OPEN_LEVELS_MAX && level.length > 0; depth += 1) {
    const below: JsonNode[] = [];
    for (const node of level) {
      if (!hasChildren(text, node)) continue;
      chars += node.end - node.begin;
      if (chars > OPEN_CHARS_MAX && depth > 0) return open;
      const { nodes } = childrenOf(text, node, childrenMax);
      if (depth > 0 && rows + nodes.length > OPEN_ROWS_MAX) return open;
      rows += nodes.length;
      open.add(node.begin);
      below.push(...nodes);
    }
    level = below;
  }
  return open;
}

const PLAIN_KEY = /^[A-Za-z_][A-Za-z0-9_]*$/;

/** The path of a node below the one with this path: `items[0].sku`, `["a b"].c`. */
export function pathOf(parent: string, key: string | number): string {
  if (typeof key === "number") return `${parent}[${key}]`;
  if (!PLAIN_KEY.test(key)) return `${parent}[${JSON.stringify(key)}]`;
  return parent ? `${parent}.${key}` : key;
}
