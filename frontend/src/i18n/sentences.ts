import { entries, type Language } from "@/i18n";

/** Longer texts are shown as they came. */
const CHARS_MAX = 2_000;
/** Texts whose translation is remembered: the cells of a list mostly say the same. */
const REMEMBERED_MAX = 500;
/** How deep sentences stand in others. */
const DEPTH_MAX = 4;

/** What a sentence is about, before it. */
const ABOUT = /^([^\s'"]{1,200}(?=: )|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")(:? )(.+)$/s;

/** One that is also known as a part of another: "no answer" as "No answer." */
const SENTENCE = /^\p{Lu}.*\.$/su;

/** By sentences in English, with values in braces. */
type Texts = Readonly<Record<string, string>>;

/** Whether a text can be a sentence: names, most values of reasons, have one word. */
function isSentence(text: string): boolean {
  return text.includes(" ") && text.length <= CHARS_MAX;
}

/** Return a text in the language that is shown, or undefined where there is no sentence for it. */
export type Translate = (text: string) => string | undefined;

/** A sentence that was taken apart: `literals` stand before, between and after its values. */
interface Template {
  literals: readonly string[];
  names: readonly string[];
  /** What it is in the other language. */
  shown: string;
}

function templateOf([sentence, shown]: readonly [string, string]): Template {
  const parts = sentence.split(/\{(\w+)\}/);
  return {
    literals: parts.filter((_, index) => index % 2 === 0),
    names: parts.filter((_, index) => index % 2 === 1),
    shown,
  };
}

function weight({ literals }: Template): number {
  return literals.join("").length;
}

/** The values of a text that has this form; each ends where what follows it is found first. */
function valuesOf({ literals, names }: Template, text: string): Map<string, string> | undefined {
  const [first = "", ...others] = literals;
  if (!text.startsWith(first)) return undefined;
  if (names.length === 0) return text === first ? new Map() : undefined;
  const values = new Map<string, string>();
  let begin = first.length;
  for (const [index, literal] of others.entries()) {
    const isLast = index === others.length - 1;
    const end = isLast ? text.length - literal.length : text.indexOf(literal, begin);
    if (end <= begin || !text.startsWith(literal, end)) return undefined;
    values.set(names[index] ?? "", text.slice(begin, end));
    begin = end + literal.length;
  }
  return values;
}

/**
 * Those with words of their own. A text that has the form of several is the one that begins as it does, for a value at
 * the beginning takes in whatever stands before; then the one with the most words.
 */
function templatesOf(texts: Texts): Template[] {
  return Object.entries(texts)
    .map(templateOf)
    .filter(({ literals }) => /\p{L}/u.test(literals.join("")))
    .sort(
      (one, other) => Number(other.literals[0] !== "") - Number(one.literals[0] !== "") || weight(other) - weight(one),
    );
}

/**
 * Translate by sentences with values in braces, `{what} belongs to {team}`, and what they are in the other language.
 * Also several such sentences, separated by a space or a semicolon, and one behind what it is about: a name with a
 * colon, or a value in quotes. A value may be a sentence itself, or one of `things`: `subject {name}`. Any other stays
 * as it is.
 */
export function translator(sentences: Texts, things: Texts = {}): Translate {
  const templates = templatesOf(sentences);
  const nouns = templatesOf(things);
  const remembered = new Map<string, string | undefined>();

  const filled = (among: readonly Template[], text: string, depth: number): string | undefined => {
    for (const template of among) {
      const values = valuesOf(template, text);
      if (values)
        return template.shown.replace(/\{(\w+)\}/g, (_, name: string) => {
          const value = values.get(name) ?? "";
          return translated(value, depth + 1) ?? filled(nouns, value, depth + 1) ?? value;
        });
    }
    return undefined;
  };
  const joined = (parts: readonly string[], between: string, depth: number): string | undefined => {
    if (parts.length < 2) return undefined;
    const all = parts.map((part) => translated(part, depth + 1));
    return all.includes(undefined) ? undefined : all.join(between);
  };
  const translated = (text: string, depth: number): string | undefined => {
    if (depth > DEPTH_MAX) return undefined;
    // First: a value of one sentence must not take in the next.
    const found =
      joined(text.split("; "), "；", depth) ??
      joined(text.split(/(?<=[.?!]) (?=\p{Lu})/u), "", depth) ??
      filled(templates, text, depth);
    if (found !== undefined) return found;
    if (SENTENCE.test(text)) {
      const [begin = ""] = text;
      const rest = text.slice(1, -1);
      const inside = translated(begin + rest, depth + 1) ?? translated(begin.toLowerCase() + rest, depth + 1);
      if (inside !== undefined) return `${inside}。`;
    }
    const [, name, between, rest] = ABOUT.exec(text) ?? [];
    const what = rest === undefined ? undefined : translated(rest, depth + 1);
    return what === undefined ? undefined : `${name ?? ""}${between === " " ? " " : "："}${what}`;
  };
  return (text) => {
    if (!isSentence(text)) return undefined;
    if (remembered.has(text)) return remembered.get(text);
    const found = translated(text, 0);
    if (remembered.size >= REMEMBERED_MAX) remembered.clear();
    remembered.set(text, found);
    return found;
  };
}

/** The sentence of each code of a problem. */
type ByKind = Readonly<Record<string, Texts>>;

/** What is shown of that which was sent, in one language. */
export interface Sent {
  translate: Translate;
  /** The sentence of a problem's code, such as "subject.exists", where there is one. */
  problem: (code: string) => string | undefined;
}

const ENGLISH: Sent = { translate: () => undefined, problem: () => undefined };
const known = new Map<Language, Sent>([["en", ENGLISH]]);
const listeners = new Set<() => void>();

export function onSent(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function inBraces(text: string): string {
  return text.replace(/\{\{(\w+)\}\}/g, "{$1}");
}

async function load(language: Language): Promise<Sent> {
  const [sentences, things, problems, english, reasons] = await Promise.all([
    entries(language, "sentences"),
    entries(language, "things"),
    entries(language, "problems"),
    entries("en", "reasons"),
    entries(language, "reasons"),
  ]);
  const theirs = reasons.code as Texts;
  // Reasons are also sent as parts of other sentences, without their codes.
  const ofReasons = Object.entries(english.code as Texts).map(([code, text]) => [
    inBraces(text),
    inBraces(theirs[code] ?? text),
  ]);
  return {
    translate: translator({ ...(Object.fromEntries(ofReasons) as Texts), ...(sentences as Texts) }, things as Texts),
    problem: (code) => {
      const [kind = "", name = ""] = code.split(".", 2);
      return (problems as ByKind)[kind]?.[name];
    },
  };
}

const loading = new Map<Language, Promise<Sent>>();

/** What is shown of sentences that nodes and the API send, which is in English. Rejects where it can't be loaded. */
export function loadSent(language: Language): Promise<Sent> {
  const found = known.get(language);
  if (found) return Promise.resolve(found);
  const before = loading.get(language);
  if (before) return before;
  const loaded = load(language)
    .then((sent) => {
      known.set(language, sent);
      for (const listener of listeners) listener();
      return sent;
    })
    .finally(() => loading.delete(language));
  loading.set(language, loaded);
  return loaded;
}

const later = new Map<Language, Sent>();

/**
 * The same while something is drawn: it is loaded with the first sentence that is to be shown, which is shown as it
 * came until then; `onSent` says when. What could not be loaded is tried again with a later sentence.
 */
export function sentIn(language: Language): Sent {
  const found = known.get(language) ?? later.get(language);
  if (found) return found;
  const ask = () => {
    loadSent(language).catch(() => undefined);
    return undefined;
  };
  const waiting: Sent = { translate: (text) => (isSentence(text) ? ask() : undefined), problem: ask };
  later.set(language, waiting);
  return waiting;
}
