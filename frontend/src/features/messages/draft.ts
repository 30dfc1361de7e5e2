import type { Message, NewMessage } from "@/features/messages/queries";
import { BODY, propertiesOf } from "@/ui/message/decode";

/** A test message as the form has it. */
export interface Draft {
  body: string;
  properties: readonly { name: string; value: string }[];
  tags: readonly string[];
  when: "now" | "delay" | "due";
  delay: number | "";
  unit: keyof typeof UNIT_SECONDS;
  /** An instant; null: not filled in. */
  due: string | null;
}

export const UNIT_SECONDS = { seconds: 1, minutes: 60, hours: 3600, days: 86_400 } as const;

export const EMPTY: Draft = {
  body: "",
  properties: [],
  tags: [],
  when: "now",
  delay: "",
  unit: "minutes",
  due: null,
};

export const TAGS_MAX = 10;
/** Longer messages would make typing slow; they can be sent again as they are. */
const EDITED_CHARS_MAX = 200_000;

/** Why an edited copy of a message can't be sent, as a text's key; undefined: it can. */
export function obstacleOf(message: Message): "send.masked" | "send.too_long" | undefined {
  if (message.masked_values.length > 0) return "send.masked";
  const texts = Object.entries(message.properties ?? {}).flat();
  return texts.reduce((sum, text) => sum + text.length, 0) > EDITED_CHARS_MAX ? "send.too_long" : undefined;
}

/** The draft of a copy of a stored message: without the properties of the protocol and the console. */
export function draftOf(message: Message): Draft {
  const own = propertiesOf(message.properties ?? {}).filter(({ isSystem }) => !isSystem);
  return {
    ...EMPTY,
    body: own.find(({ name }) => name === BODY)?.value ?? "",
    properties: own.filter(({ name }) => name !== BODY).map(({ name, value }) => ({ name, value })),
    tags: message.tags,
  };
}

/** What is wrong with a draft, as keys of the texts; nothing when it can be tried. The API has the last word. */
export type Fault = "nothing" | "name_missing" | "name_twice" | "name_body" | "delay_missing" | "due_missing";

export function faultsOf(draft: Draft): Fault[] {
  const faults: Fault[] = [];
  const names = draft.properties.map(({ name }) => name);
  if (!draft.body && names.length === 0) faults.push("nothing");
  if (names.some((name) => !name)) faults.push("name_missing");
  if (new Set(names).size < names.length) faults.push("name_twice");
  if (draft.body && names.includes(BODY)) faults.push("name_body");
  if (draft.when === "delay" && draft.delay === "") faults.push("delay_missing");
  if (draft.when === "due" && draft.due === null) faults.push("due_missing");
  return faults;
}

/** The request for a draft without faults. */
export function messageOf(draft: Draft, reason: string): NewMessage {
  return {
    properties: {
      ...(draft.body ? { [BODY]: draft.body } : {}),
      ...Object.fromEntries(draft.properties.map(({ name, value }) => [name, value])),
    },
    ...(draft.tags.length > 0 ? { tags: [...draft.tags] } : {}),
    ...(draft.when === "delay" && draft.delay !== "" ? { delay_seconds: draft.delay * UNIT_SECONDS[draft.unit] } : {}),
    ...(draft.when === "due" && draft.due !== null ? { due_at: draft.due } : {}),
    ...(reason ? { reason } : {}),
  };
}
