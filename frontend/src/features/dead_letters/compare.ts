import type { Attempt, Story } from "@/features/dead_letters/queries";
import { propertiesOf } from "@/ui/message/decode";

/** The attempts of a letter side by side. Pure. */

export interface Column {
  /** The number of an attempt; null: the letter itself. */
  attempt: number | null;
  brokerGroup: string;
  sequence: string;
  subject: string | null;
  consumerId: string | null;
  waitedSince: string | null;
  pulledAt: string | null;
  endedAt: string | null;
  /** From being pulled to its end; null when either is not known. */
  tookSeconds: number | null;
  /** Why something of it is not known. */
  why: string | null;
  properties: ReadonlyMap<string, string> | null;
}

export interface PropertyRow {
  name: string;
  isSystem: boolean;
  /** By column; null: the column has no such property, or it is masked. */
  values: (string | null)[];
  /** By column: whether it differs from the one before. */
  isChanged: boolean[];
}

function valuesOf(properties: Attempt["properties"]): ReadonlyMap<string, string> | null {
  return properties === null ? null : new Map(propertiesOf(properties).map(({ name, value }) => [name, value]));
}

export function columnsOf(story: Story): Column[] {
  return [
    ...story.story.map((one): Column => ({
      attempt: one.attempt,
      brokerGroup: one.broker_group,
      sequence: one.sequence,
      subject: one.subject,
      consumerId: one.consumer_id,
      waitedSince: one.stored_at,
      pulledAt: one.pulled_at,
      endedAt: one.ended_at,
      tookSeconds:
        one.pulled_at !== null && one.ended_at !== null
          ? (Date.parse(one.ended_at) - Date.parse(one.pulled_at)) / 1000
          : null,
      why: one.why,
      properties: valuesOf(one.properties),
    })),
    {
      attempt: null,
      brokerGroup: story.broker_group,
      sequence: story.sequence,
      subject: null,
      consumerId: null,
      waitedSince: story.stored_at,
      pulledAt: null,
      endedAt: null,
      tookSeconds: null,
      why: null,
      properties: valuesOf(story.properties),
    },
  ];
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
