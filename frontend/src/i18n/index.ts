import i18next from "i18next";
import { initReactI18next } from "react-i18next";

export const LANGUAGES = { en: "English", zh: "中文" } as const;
export type Language = keyof typeof LANGUAGES;
export type Texts = Record<string, Record<string, unknown>>;

const STORED = "qmq.language";
// A chunk a language: nobody loads both at first.
const loaders: Record<Language, () => Promise<{ texts: Texts }>> = {
  en: () => import("@/i18n/en"),
  zh: () => import("@/i18n/zh"),
};

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

async function load(language: Language): Promise<void> {
  if (i18next.hasResourceBundle(language, "common")) return;
  const { texts } = await loaders[language]();
  for (const [namespace, entries] of Object.entries(texts)) i18next.addResourceBundle(language, namespace, entries);
}

export async function setLanguage(language: Language): Promise<void> {
  await load(language);
  await i18next.changeLanguage(language);
  document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  localStorage.setItem(STORED, language);
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
  await setLanguage(language);
}
