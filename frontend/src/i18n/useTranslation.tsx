import i18next, { type TFunction } from "i18next";
import { createContext, useContext, useSyncExternalStore, type ReactNode } from "react";
import { isLanguage, type Language } from "@/i18n";
import { onSent, sentIn } from "@/i18n/sentences";
import { Sentences } from "@/i18n/useSentence";

interface Texts<Namespace extends string> {
  t: TFunction<Namespace>;
  language: Language;
}

const Shown = createContext<Language>("en");
const made = new Map<string, Texts<string>>();

function subscribe(listener: () => void): () => void {
  i18next.on("languageChanged", listener);
  return () => i18next.off("languageChanged", listener);
}

function shown(): Language {
  return isLanguage(i18next.language) ? i18next.language : "en";
}

/** Has the language for all that is drawn in it: a change of language draws again what has texts. */
export function TextsProvider({ children }: { children: ReactNode }) {
  const language = useSyncExternalStore(subscribe, shown);
  const sent = useSyncExternalStore(onSent, () => sentIn(language));
  return (
    <Shown.Provider value={language}>
      <Sentences.Provider value={sent}>{children}</Sentences.Provider>
    </Shown.Provider>
  );
}

/**
 * The texts of a namespace, which has to be loaded, in the language that is shown. `t` is the same until that changes.
 * Cells of lists ask for it by the thousand: it is a look-up, and subscribes to nothing.
 */
export function useTranslation<Namespace extends string = "common">(namespace?: Namespace): Texts<Namespace> {
  const language = useContext(Shown);
  const key = `${language}/${namespace ?? "common"}`;
  let texts = made.get(key);
  if (!texts) {
    texts = { t: i18next.getFixedT(language, namespace ?? "common"), language };
    made.set(key, texts);
  }
  return texts;
}
