import { createContext, useCallback, useContext } from "react";
import { sentIn, type Sent } from "@/i18n/sentences";

export const Sentences = createContext<Sent>(sentIn("en"));

/** Return what shows a sentence that a node or the API sent: in the viewer's language, where it is known there. */
export function useSentence(): (text: string) => string {
  const { translate } = useContext(Sentences);
  return useCallback((text) => translate(text) ?? text, [translate]);
}
