import type { Right } from "@/api/me";
import { addressOf, type Found } from "@/app/jump/places";
import type { Target } from "@/ui/links/addresses";

/** Something that can be done with what the API finds: "pause fraud" offers to pause each group that fits "fraud". */
export interface Verb {
  /** Also its key below `jump.verb.` of the texts, with `{{name}}`, and below `jump.word.`, the words that name it. */
  id: "pause" | "reset" | "send" | "messages" | "dead_letters";
  kind: Found["kind"];
  right: Right;
  address: (place: Found) => Target;
}

const group = (place: Found) => ({ subject: place.subject ?? "", group: place.name });

export const VERBS: readonly Verb[] = [
  {
    id: "pause",
    kind: "consumer_group",
    right: "change_groups",
    address: (place) => ({ to: "/groups/$subject/$group", params: group(place), search: { do: "pause" } }),
  },
  {
    id: "reset",
    kind: "consumer_group",
    right: "change_groups",
    address: (place) => ({ to: "/groups/$subject/$group", params: group(place), search: { do: "reset" } }),
  },
  {
    id: "dead_letters",
    kind: "consumer_group",
    right: "read",
    address: (place) => ({ to: "/dead-letters/$subject/$group", params: group(place) }),
  },
  {
    id: "send",
    kind: "subject",
    right: "send",
    address: (place) => ({ ...addressOf(place), search: { tab: "messages", do: "send" } }) as Target,
  },
  {
    id: "messages",
    kind: "subject",
    right: "read_messages",
    address: (place) => ({ ...addressOf(place), search: { tab: "messages" } }) as Target,
  },
];

/**
 * The verb that a text begins with, and what it is to be done with. `wordsOf` gives the words that name a verb,
 * separated by commas, longest first where one begins another. Pure.
 */
export function parseVerb(text: string, wordsOf: (verb: Verb) => string): { verb: Verb | undefined; rest: string } {
  const lowered = text.trimStart().toLowerCase();
  for (const verb of VERBS) {
    for (const word of wordsOf(verb).split(",")) {
      // Chinese needs no blank behind a verb.
      const isWhole = lowered.startsWith(`${word} `) || (/^\P{ASCII}/u.test(word) && lowered.startsWith(word));
      if (isWhole) return { verb, rest: text.trimStart().slice(word.length).trim() };
    }
  }
  return { verb: undefined, rest: text.trim() };
}
