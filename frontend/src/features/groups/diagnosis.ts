import type { Schema } from "@/api/client";
import * as numbers from "@/format/numbers";
import * as times from "@/format/times";
import { numberOf } from "@/format/values";

export type Finding = Schema<"FindingShape">;
type Code = Finding["code"];

/** A part of a finding's text: a key below `diagnosis.`, and the values without which it says nothing. */
interface Part {
  key: string;
  needs: readonly string[];
}

const part = (key: string, ...needs: string[]): Part => ({ key, needs });
const WAITING = part("waiting", "lag");
const OLDEST = part("oldest", "seconds");

const PARTS: Readonly<Record<Code, readonly Part[]>> = {
  broker_group_away: [part("broker_group_away")],
  paused: [part("paused"), WAITING],
  consumers_paused: [part("consumers_paused")],
  no_consumers: [part("no_consumers"), WAITING, part("arriving", "arriving")],
  consumer_stuck: [part("consumer_stuck")],
  stopped: [part("stopped"), WAITING, OLDEST],
  retry_loop: [part("retry_loop"), part("pending", "pending")],
  slower: [part("slower")],
  too_few_consumers: [part("too_few_consumers"), OLDEST],
  growing: [part("growing"), WAITING, OLDEST],
  dead_letters: [part("dead_letters")],
  pace_unknown: [part("pace_unknown")],
  draining: [part("draining"), WAITING, part("gone", "seconds")],
  keeping_up: [part("keeping_up"), WAITING],
  unknown: [part("unknown"), part("unknown_why", "reason")],
};

/** How values are written, by their name; all others as they are. `count` also chooses the plural. */
const FORMATS: Readonly<Record<string, (value: number, language: string) => string>> = {
  seconds: times.duration,
  seconds_ago: times.duration,
  arriving: numbers.rate,
  acked: numbers.rate,
  attempts: numbers.rate,
  failing: numbers.rate,
  now: numbers.rate,
  before: numbers.rate,
};

/** The sentences of a finding: keys below `diagnosis.` with their values. Unknown numbers have no sentence. Pure. */
export function sentencesOf({ code, values }: Finding, language: string): { key: string; values: Values }[] {
  return PARTS[code]
    .filter(({ needs }) => needs.every((name) => values[name] !== null && (name !== "lag" || values[name] !== 0)))
    .map(({ key }) => ({ key, values: written(values, key, language) }));
}

type Values = Record<string, string | number>;

function written(values: Finding["values"], key: string, language: string): Values {
  // The number that chooses the plural: of waiting messages it is the lag, of pending ones their own.
  const count = numberOf(key === "waiting" ? values.lag : key === "pending" ? values.pending : values.count);
  const found: Values = count === null ? {} : { count, number: numbers.count(count, language) };
  for (const [name, value] of Object.entries(values)) {
    const format = FORMATS[name];
    if (typeof value === "number" && format) found[name] = format(value, language);
    else if (name !== "count" && (typeof value === "string" || typeof value === "number")) found[name] = value;
    else if (Array.isArray(value)) found[name] = value.join(", ");
  }
  return found;
}

/** What helps: a dialog of the page, or a place to go to; null: nothing that a button could do. */
export type Help =
  | { dialog: "resume" }
  | { dialog: "start" }
  | { dialog: "pause_one"; consumer: string }
  | { place: "broker_group"; name: string }
  | { place: "retries" | "dead_letters" }
  | null;

/** The button that helps against a finding. Pure. */
export function helpFor({ code, values }: Finding): Help {
  switch (code) {
    case "broker_group_away":
      return { place: "broker_group", name: String(values.broker_group) };
    case "paused":
    case "consumers_paused":
      return { dialog: "resume" };
    case "no_consumers":
    case "slower":
    case "too_few_consumers":
      return { dialog: "start" };
    case "consumer_stuck":
      return { dialog: "pause_one", consumer: String(values.consumer) };
    case "retry_loop":
      return { place: "retries" };
    case "dead_letters":
      return { place: "dead_letters" };
    default:
      return null;
  }
}
