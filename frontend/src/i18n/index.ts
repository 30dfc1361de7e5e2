import i18next from "i18next";
import { initReactI18next } from "react-i18next";

export const LANGUAGES = { en: "English", zh: "中文" } as const;
export type Language = keyof typeof LANGUAGES;
export type Texts = Record<string, Record<string, unknown>>;

/** "first": what signing in and the overview say, for the first load; "rest": what all other pages do. */
export type Part = "first" | "rest";
type Loader = () => Promise<{ texts: Texts }>;

const STORED = "qmq.language";
// A chunk a language and part: nobody loads what isn't shown.
const loaders: Record<Language, Record<Part, Loader>> = {
  en: { first: () => import("@/i18n/en/first"), rest: () => import("@/i18n/en/rest") },
  zh: { first: () => import("@/i18n/zh/first"), rest: () => import("@/i18n/zh/rest") },
};
/** The parts that somebody asked for: another language comes with the same. */
const parts = new Set<Part>();
const loads = new Map<Loader, Promise<void>>();
/** The language that is shown, or is being switched to. */
let wanted: Language | undefined;

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

async function add(language: Language, load: Loader): Promise<void> {
  const { texts } = await load();
  for (const [namespace, entries] of Object.entries(texts)) i18next.addResourceBundle(language, namespace, entries);
}

/** Once however often it is asked for; again after a failure. */
function loaded(language: Language, part: Part): Promise<void> {
  const load = loaders[language][part];
  const known = loads.get(load);
  if (known) return known;
  const loading = add(language, load).catch((error: unknown) => {
    loads.delete(load);
    throw error;
  });
  loads.set(load, loading);
  return loading;
}

export async function setLanguage(language: Language): Promise<void> {
  wanted = language;
  await Promise.all([...parts].map((part) => loaded(language, part)));
  await i18next.changeLanguage(language);
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  localStorage.setItem(STORED, language);
}

/** What has to be there before a page is shown that says more than the first load does. */
export async function restOfTexts(): Promise<void> {
  parts.add("rest");
  const languages = new Set([i18next.language, wanted].filter(isLanguage));
  await Promise.all([...languages].map((language) => loaded(language, "rest")));
}

/** To be awaited before the first render. */
export async function startTexts(language: Language = firstLanguage()): Promise<void> {
  await i18next.use(initReactI18next).init({
    lng: language,
    fallbackLng: false,
    resources: {},
    defaultNS: "common",
    interpolation: { escapeValue: false },
    returnNull: false,
  });
  // Whatever was there before, init began anew.
  loads.clear();
  parts.add("first");
  await setLanguage(language);
}
