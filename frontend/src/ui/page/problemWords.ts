import i18next from "i18next";
import { useEffect, useState } from "react";
import { asProblem } from "@/api/problem";
import { loadTexts } from "@/i18n";
import { useTranslation } from "@/i18n/useTranslation";

/** What a problem says: what is wrong and what to do, in the viewer's language. */
export interface ProblemWords {
  text: string;
  /** The API's own sentence, in English, with its values; "" where `text` is that sentence. */
  detail: string;
}

const NAMESPACE = "problems";

/**
 * Return what says a problem in words. The API speaks English; for other languages there is a sentence for each of its
 * codes. They are loaded when there is a problem; until then, and if that fails, the API's sentence is shown.
 */
export function useProblemWords(isWanted: boolean): (error: unknown) => ProblemWords {
  const { language } = useTranslation();
  const [, setLoaded] = useState("");
  useEffect(() => {
    if (!isWanted || language === "en") return;
    void loadTexts([NAMESPACE]).then(
      () => setLoaded(language),
      () => undefined,
    );
  }, [isWanted, language]);
  return (error) => {
    const { code, title, detail } = asProblem(error);
    const text: unknown = i18next.getResource(language, NAMESPACE, code);
    return typeof text === "string" ? { text, detail } : { text: detail || title || code, detail: "" };
  };
}
