import { useContext } from "react";
import { asProblem } from "@/api/problem";
import { Sentences } from "@/i18n/useSentence";

/** What a problem says: what is wrong and what to do, in the viewer's language. */
export interface ProblemWords {
  text: string;
  /** The API's own sentence, in English, where it has none in the viewer's language; else "". */
  detail: string;
}

/**
 * Return what says a problem in words: the API's sentence in the viewer's language. Where it is not known there, as
 * those of libraries, the sentence of the problem's code stands before it.
 */
export function useProblemWords(): (error: unknown) => ProblemWords {
  const { translate, problem } = useContext(Sentences);
  return (error) => {
    const { code, title, detail } = asProblem(error);
    const whole = translate(detail || title || code);
    if (whole !== undefined) return { text: whole, detail: "" };
    const text = problem(code);
    return text === undefined ? { text: detail || title || code, detail: "" } : { text, detail };
  };
}
