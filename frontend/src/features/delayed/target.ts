import type { Delayed, Target } from "@/features/delayed/queries";

const NONE = "-";

/**
 * A row's key: readable, and enough to act on it. Subjects, instants and names of delay groups hold no spaces; ids may.
 */
export function keyOf({ subject, message_id, due_at, delay_group }: Delayed): string {
  return [subject, message_id, due_at ?? NONE, delay_group].join(" ");
}

/** The message that a key names. */
export function targetOf(key: string): Target {
  const words = key.split(" ");
  const due = words.at(-2);
  return {
    subject: words[0] ?? "",
    message_id: words.slice(1, -2).join(" "),
    due_at: due === undefined || due === NONE ? null : due,
  };
}
