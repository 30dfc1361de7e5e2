import { useSentence } from "@/i18n/useSentence";

/** A sentence that a node or the API sent, in the viewer's language, where it is known there. */
export function Sent({ text }: { text: string }) {
  return useSentence()(text);
}
