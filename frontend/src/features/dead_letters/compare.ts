import type { Attempt, Story } from "@/features/dead_letters/queries";
import { propertiesOf } from "@/ui/message/decode";

/** The attempts of a dead letter side by side. Pure. */

type Known = Pick<
  Attempt,
  "broker_group" | "sequence" | "stored_at" | "consumer_id" | "pulled_at" | "ended_at" | "cause" | "why"
>;

export interface Column extends Known {
  /** The number of an attempt; null: the dead letter itself. */
  attempt: number | null;
  subject: string | null;
  /** From being pulled to its end; null when either is not known. */
  tookSeconds: number | null;
  properties: ReadonlyMap<string, string> | null;
}

/** What a dead letter, which no consumer pulls, does not have. */
const OF_THE_MESSAGE = {
  attempt: null,
  subject: null,
  consumer_id: null,
  pulled_at: null,
  ended_at: null,
  tookSeconds: null,
  cause: null,
  why: null,
};

export interface PropertyRow {
  name: string;
  isSystem: boolean;
  /** By column; null: the column has no such property, or it is masked. */
  values: (string | null)[];
  /** By column: whether it differs from the one before. */
  isChanged: boolean[];
}

/** The causes that consumers recorded, the most frequent first, and how many of the attempts failed with each. */
export function causesOf(story: Story): { cause: string; failed: number; of: number }[] {
  const counts = new Map<string, number>();
  for (const { cause } of story.story) if (cause !== null) counts.set(cause, (counts.get(cause) ?? 0) + 1);
  const of = Math.max(story.attempts ?? 0, story.story.length, 1);
  return [...counts].sort(([, one], [, other]) => other - one).map(([cause, failed]) => ({ cause, failed, of }));
}

function valuesOf(properties: Attempt["properties"]): ReadonlyMap<string, string> | null {
  return properties === null ? null : new Map(propertiesOf(properties).map(({ name, value }) => [name, value]));
}

export function columnsOf(story: Story): Column[] {
  const attempts = story.story.map((one): Column => ({
    ...one,
    tookSeconds:
      one.pulled_at !== null && one.ended_at !== null
        ? (Date.parse(one.ended_at) - Date.parse(one.pulled_at)) / 1000
        : null,
    properties: valuesOf(one.properties),
  }));
  return [...attempts, { ...story, ...OF_THE_MESSAGE, properties: valuesOf(story.properties) }];
}

/** Every property of any column; those that users sent before the system's. */
export function propertyRows(columns: readonly Column[]): PropertyRow[] {
  const names = new Map<string, string>();
  for (const { properties } of columns) for (const [name] of properties ?? []) names.set(name, "");
  return propertiesOf(Object.fromEntries(names)).map(({ name, isSystem }) => {
    const values = columns.map(({ properties }) => properties?.get(name) ?? null);
    return {
      name,
      isSystem,
      values,
      isChanged: values.map((value, at) => at > 0 && value !== values[at - 1]),
    };
  });
}
