import type { Schema } from "@/api/client";
import type { DeadLetter } from "@/features/dead_letters/queries";

/** What a copy says instead of its dead letter: properties in the order they are shown, and tags. */
export interface Edit {
  properties: readonly { name: string; text: string }[];
  tags: readonly string[];
  /** That of the dead letter. */
  decoding: DeadLetter["decoding"];
}

/** Properties that clients and nodes write: a copy has them as they are. */
const SYSTEM = "qmq_";
export const TAGS_MAX = 10;

/** A dead letter as its form begins; null: it can't be edited, as its contents are hidden or unreadable. */
export function editOf({ properties, tags, masked, withheld, decoding }: DeadLetter): Edit | null {
  if (masked || withheld !== null || properties === null) return null;
  const own = Object.entries(properties).filter(([name]) => !name.startsWith(SYSTEM));
  return { properties: own.map(([name, text]) => ({ name, text })), tags, decoding };
}

/** What is wrong with an edit, as a key of the texts; null: it can be tried. The API has the last word. */
export function faultOf({
  properties,
}: Pick<Edit, "properties">): "name_missing" | "name_twice" | "name_system" | null {
  const names = properties.map(({ name }) => name);
  if (names.some((name) => !name)) return "name_missing";
  if (new Set(names).size < names.length) return "name_twice";
  return names.some((name) => name.startsWith(SYSTEM)) ? "name_system" : null;
}

export function toRequest({ properties, tags }: Edit): Schema<"MessageEditRequest"> {
  return { properties: Object.fromEntries(properties.map(({ name, text }) => [name, text])), tags: [...tags] };
}
