import type { Attempt, DeadLetter, Story } from "@/features/dead_letters/queries";

/** Dead letters and attempts for tests. */

const MESSAGE = {
  broker_group: "g1",
  message_id: "id-1",
  stored_at: "2026-01-01T00:00:10Z",
  created_at: "2026-01-01T00:00:00Z",
  tags: [],
  properties: { id: "7" },
  size: 120,
  masked: false,
  masked_values: [],
  decoding: null,
  withheld: null,
};

export function letter(sequence: string, more: Partial<DeadLetter> = {}): DeadLetter {
  return {
    ...MESSAGE,
    sequence,
    attempts: 3,
    attempts_max: 3,
    cause: null,
    last_pull_sequence: null,
    original_message_id: null,
    decision: null,
    ...more,
  };
}

export function attempt(number: number, more: Partial<Attempt> = {}): Attempt {
  return {
    ...MESSAGE,
    sequence: String(number),
    attempt: number,
    subject: "order.paid",
    consumer_id: "c1",
    pulled_at: null,
    ended_at: null,
    cause: null,
    why: null,
    changes: [],
    ...more,
  };
}

export function story(more: Partial<Story> = {}): Story {
  return { ...letter("9"), changes: [], story: [], holes: [], ...more };
}
