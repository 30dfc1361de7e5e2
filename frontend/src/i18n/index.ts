import i18next, { type FormatterModule } from "i18next";
import { numberFormat } from "@/format/intl";

export const LANGUAGES = { en: "English", zh: "中文" } as const;
export type Language = keyof typeof LANGUAGES;
type Entries = Record<string, unknown>;

const STORED = "qmq.language";
/** What the layout says. */
const FIRST = "common";
// A chunk for each language and namespace: a page loads only what it says.
const files = import.meta.glob<Entries>("./*/*.json", { import: "default" });
/** `groups` for groups.json, and so on. */
export const NAMESPACES = Object.keys(files).flatMap((path) => /^\.\/en\/(\w+)\.json$/.exec(path)?.[1] ?? []);
/** Namespaces that are in use: another language is loaded with the same. */
const used = new Set<string>();
const loads = new Map<string, Promise<void>>();
/** The language that is shown, or is being switched to. */
let wanted: Language | undefined;

/** The locale by which numbers and times are written. */
export function locale(language: string | undefined): string {
  return language === "zh" ? "zh-CN" : "en-GB";
}

export function isLanguage(value: unknown): value is Language {
  return typeof value === "string" && value in LANGUAGES;
}

/** The user's choice on this machine, else the browser's first language that there is. */
export function firstLanguage(): Language {
  const stored = localStorage.getItem(STORED);
  if (isLanguage(stored)) return stored;
  for (const wanted of navigator.languages) {
    const short = wanted.split("-")[0];
    if (isLanguage(short)) return short;
  }
  return "en";
}

/** The texts of a namespace in any language. */
export async function entries(language: Language, namespace: string): Promise<Entries> {
  const load = files[`./${language}/${namespace}.json`];
  if (!load) throw new Error(`there are no texts ${language}/${namespace}`);
  return load();
}

async function add(language: Language, namespace: string): Promise<void> {
  i18next.addResourceBundle(language, namespace, await entries(language, namespace));
}

/** Once however often it is asked for; again after a failure. */
function loaded(language: Language, namespace: string): Promise<void> {
  const name = `${language}/${namespace}`;
  const known = loads.get(name);
  if (known) return known;
  const loading = add(language, namespace).catch((error: unknown) => {
    loads.delete(name);
    throw error;
  });
  loads.set(name, loading);
  return loading;
}

export async function setLanguage(language: Language): Promise<void> {
  wanted = language;
  await Promise.all([...used].map((namespace) => loaded(language, namespace)));
  await i18next.changeLanguage(language);
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  localStorage.setItem(STORED, language);
}

/** Load what has to be there before a part of the console is shown that uses these namespaces. */
export async function loadTexts(namespaces: readonly string[]): Promise<void> {
  for (const namespace of namespaces) used.add(namespace);
  const languages = new Set([i18next.language, wanted].filter(isLanguage));
  await Promise.all([...languages].flatMap((language) => namespaces.map((namespace) => loaded(language, namespace))));
}

/** A module of components with its texts. */
export function withTexts<Module>(load: () => Promise<Module>, namespaces: readonly string[]): () => Promise<Module> {
  return async () => {
    const [module] = await Promise.all([load(), loadTexts(namespaces)]);
    return module;
  };
}

/**
 * A value as it stands in a text: numbers are grouped as they are on their own. A number that is a name is handed in as
 * a text.
 */
const VALUES: FormatterModule = {
  type: "formatter",
  init: () => undefined,
  add: () => undefined,
  addCached: () => undefined,
  format: (value: unknown, _, language) =>
    typeof value === "number" ? numberFormat(locale(language), {}).format(value) : (value as string),
};

/** To be awaited before the first render. */
export async function startTexts(language: Language = firstLanguage()): Promise<void> {
  await i18next.use(VALUES).init({
    lng: language,
    fallbackLng: false,
    resources: {},
    defaultNS: "common",
    interpolation: { escapeValue: false, alwaysFormat: true },
    returnNull: false,
  });
  // The texts of an earlier start are gone.
  loads.clear();
  used.clear();
  used.add(FIRST);
  await setLanguage(language);
}
