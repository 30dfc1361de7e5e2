import { expect, test } from "vitest";
import { pages } from "@/app/pages";
import { textKeys } from "@/test/textKeys";
import { BUILTIN } from "@/shared/ruleNames";
import { subjectParts } from "@/ui/links/subjectParts";

type Texts = { [key: string]: string | Texts };

const jsons = import.meta.glob<Texts>("./{en,zh}/*.json", { eager: true, import: "default" });
const sources = import.meta.glob<string>(["/src/**/*.{ts,tsx}", "!/src/**/*.test.*", "!/src/api/schema.gen.ts"], {
  eager: true,
  query: "?raw",
  import: "default",
});
/** What i18next appends for a number; languages differ in which they have. */
const PLURAL = /_(zero|one|two|few|many|other)$/;

/** `namespace:key` to its text. */
function flat(texts: Texts, before: string): [string, string][] {
  return Object.entries(texts).flatMap(([key, value]): [string, string][] =>
    typeof value === "string" ? [[before + key, value]] : flat(value, `${before}${key}.`),
  );
}

function all(language: string): Map<string, string> {
  return new Map(
    Object.entries(jsons)
      .filter(([path]) => path.startsWith(`./${language}/`))
      .flatMap(([path, texts]) => flat(texts, `${path.split("/")[2]?.replace(".json", "") ?? ""}:`)),
  );
}

const en = all("en");
/** What the API and nodes send is in English: other languages alone have sentences for it (`i18n/sentences`). */
const zh = new Map([...all("zh")].filter(([key]) => !/^(problems|sentences|things):/.test(key)));
const counted = new Set([...en.keys()].filter((key) => key.endsWith("_other")).map((key) => key.replace(PLURAL, "")));
/** A key as code asks for it: without what stands for a number. "too_many" is no such. */
const plain = (key: string) => (counted.has(key.replace(PLURAL, "")) ? key.replace(PLURAL, "") : key);
const keys = new Set([...en.keys()].map(plain));

function placeholders(texts: Map<string, string>): Map<string, Set<string>> {
  const found = new Map<string, Set<string>>();
  for (const [key, text] of texts) {
    const names = found.get(plain(key)) ?? new Set();
    for (const [, name] of text.matchAll(/\{\{-?\s*([\w.]+)[^}]*\}\}/g)) if (name) names.add(name);
    found.set(plain(key), names);
  }
  return found;
}

/** Whether a pattern means a key: `*` stands for what code puts there. */
function matcher(namespace: string, pattern: string): (key: string) => boolean {
  const escaped = pattern.split("*").map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  const regex = new RegExp(`^${namespace || "[^:]+"}:${escaped.join("[^:]+")}$`);
  return (key) => regex.test(key);
}

const found = Object.entries(sources).map(([file, source]) => textKeys(file, source));
const uses = found.flatMap((file) => file.uses);
const list = [...keys];

test("both languages say the same things", () => {
  const theirs = new Set([...zh.keys()].map(plain));
  expect({ onlyEnglish: list.filter((key) => !theirs.has(key)) }).toEqual({ onlyEnglish: [] });
  expect({ onlyChinese: [...theirs].filter((key) => !keys.has(key)) }).toEqual({ onlyChinese: [] });
  expect([...en, ...zh].filter(([, text]) => text.trim() === "")).toEqual([]);
});

test("each form of a number that a language needs is there", () => {
  const wanting = [...counted].filter((key) => !en.has(`${key}_one`) || !zh.has(`${key}_other`));
  expect(wanting).toEqual([]);
});

test("both fill in the same values", () => {
  const theirs = placeholders(zh);
  const different = [...placeholders(en)].filter(([key, names]) => {
    // A count may go without saying: "a row" has it in the word.
    const [mine, other] = [names, theirs.get(key) ?? new Set()].map((set) =>
      [...set].filter((name) => name !== "count"),
    );
    return mine?.sort().join() !== other?.sort().join();
  });
  expect(different).toEqual([]);
});

test("every text that code asks for exists", () => {
  const missing = uses.filter(({ namespace, pattern }) => !list.some(matcher(namespace, pattern)));
  expect(missing).toEqual([]);
});

test("no text is left over", () => {
  const wanted = uses.map(({ namespace, pattern }) => matcher(namespace, pattern));
  const literals = new Set(found.flatMap((file) => [...file.literals]));
  // Keys are also handed on as they are ("messages:tab.tail"), or as what stands behind a dot: of those the literal is
  // looked for.
  const isUsed = (key: string) => {
    const path = key.slice(key.indexOf(":") + 1);
    return literals.has(key) || literals.has(path) || wanted.some((isMeant) => isMeant(key));
  };
  expect(list.filter((key) => !isUsed(key))).toEqual([]);
});

/** What is loaded with its own texts (`ui/dialog/whenOpened`). */
const WITH_TEXTS = /whenDrawn\([^;]*?\["\w+"(?:, "\w+")*\],?\s*\)/g;

/**
 * Namespaces that a file uses, with all that it imports: dialogs that are loaded later too, but neither the pages of
 * others nor what is loaded with its own texts.
 */
function namespacesFrom(...begin: string[]): Set<string> {
  const files = new Set(begin);
  // The loop also visits what is added to the set meanwhile.
  for (const file of files) {
    for (const [, used] of (sources[file] ?? "")
      .replace(WITH_TEXTS, "")
      .matchAll(/"@\/((?:ui|live|api|features)\/[\w/]+)"/g)) {
      for (const end of [".ts", ".tsx"])
        if (`/src/${used ?? ""}${end}` in sources) files.add(`/src/${used ?? ""}${end}`);
    }
  }
  return new Set([...files].flatMap((file) => [...textKeys(file, sources[file] ?? "").namespaces]));
}

test("pages and tabs name the namespaces that they use", () => {
  const layout = Object.keys(sources).filter((file) => file.startsWith("/src/app/") && file !== "/src/app/pages.ts");
  const ofSubject = pages.find(({ path }) => path === "/subjects/$subject")?.texts ?? [];
  const parts = [...pages, ...subjectParts.map((part) => ({ ...part, texts: [...ofSubject, ...part.texts] }))];
  const missing = parts.flatMap(({ load, texts }) => {
    const [file = ""] = /\/src\/features\/[\w/]+\.tsx/.exec(load.toString()) ?? [];
    expect(Object.keys(sources)).toContain(file);
    return [...namespacesFrom(file)]
      .filter((name) => name !== "common" && !texts.includes(name))
      .map((name) => `${file}: ${name}`);
  });
  expect(missing).toEqual([]);
  expect([...namespacesFrom(...layout)].filter((name) => name !== "common")).toEqual([]);
});

/** Numbers that have one word each (docs/glossary.md): the Chinese word, and what the English text says. */
const TERMS: readonly [RegExp, RegExp][] = [
  [/堆积/, /\blag\b|up to date/i],
  [/延迟/, /time lag|behind/i],
  // "Not pulled yet" in a sentence is no number.
  [/(?<![从尚])未拉取/, /backlog/i],
  [/处理中/, /in flight/i],
];

test("numbers have one word each in Chinese", () => {
  const wrong = [...zh].flatMap(([key, text]) => {
    const english = en.get(key) ?? en.get(`${plain(key)}_one`) ?? "";
    const broken = TERMS.filter(([word, wanted]) => word.test(text) && !wanted.test(english));
    return broken.map(([word, wanted]) => `${key}: ${text} has ${word.source}, so "${english}" needs ${wanted.source}`);
  });
  expect(wrong).toEqual([]);
  expect([...zh].filter(([, text]) => /积压|滞后|时间延迟|延迟消息|遗忘|位点/.test(text))).toEqual([]);
});

test("built-in alert rules have their names in both languages", () => {
  const names = Object.fromEntries(Object.entries(BUILTIN).map(([name, key]) => [`alerts:rule_name.${key}`, name]));
  expect(Object.fromEntries([...en].filter(([key]) => key.startsWith("alerts:rule_name.")))).toEqual(names);
});
