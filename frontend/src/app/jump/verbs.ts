import type { Right } from "@/api/me";
import { addressOf, type Found } from "@/app/jump/places";
import { isMeantBy } from "@/app/jump/typos";
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

/** A text as an action. */
export interface Parsed {
  verb: Verb | undefined;
  /** What it is to be done with; without a verb the whole text. */
  rest: string;
  /** Whether the verb has a typing error. Then the text may as well be a name. */
  isGuess: boolean;
}

/**
 * The verb that a text begins with, and what it is to be done with. `wordsOf` gives the words that name a verb,
 * separated by commas, longest first where one begins another. A word with one typing error is a verb if no verb is
 * spelled as the text. Pure.
 */
export function parseVerb(text: string, wordsOf: (verb: Verb) => string): Parsed {
  const spelled = text.trim();
  const lowered = spelled.toLowerCase();
  const words = VERBS.flatMap((verb) =>
    wordsOf(verb)
      .split(",")
      .map((word) => ({ verb, word })),
  );
  // Chinese needs no blank behind a verb.
  const exact = words.find(({ word }) =>
    /^\P{ASCII}/u.test(word) ? lowered.startsWith(word) && lowered !== word : lowered.startsWith(`${word} `),
  );
  if (exact) return { verb: exact.verb, rest: spelled.slice(exact.word.length).trim(), isGuess: false };
  const given = spelled.split(/\s+/);
  for (const { verb, word } of words) {
    const parts = word.split(" ");
    const rest = given.slice(parts.length).join(" ");
    if (rest && parts.every((part, index) => isMeantBy(part, given[index] ?? ""))) return { verb, rest, isGuess: true };
  }
  return { verb: undefined, rest: spelled, isGuess: false };
}
