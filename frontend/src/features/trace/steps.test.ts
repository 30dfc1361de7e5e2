import { expect, test } from "vitest";
import type { Link, Message, Standing } from "@/features/trace/queries";
import { beginning, inGroup, laneOf } from "@/features/trace/steps";

const at = (second: number) => new Date(Date.UTC(2026, 0, 1, 0, 0, second)).toISOString();
const ms = (second: number) => Date.parse(at(second));
const message: Message = {
  broker_group: "main",
  sequence: "7",
  message_id: "id",
  stored_at: at(10),
  created_at: at(1),
  tags: [],
  properties: {},
  size: 1,
  masked: false,
  masked_values: [],
  decoding: null,
  withheld: null,
};
const standing: Standing = {
  group: "billing",
  broadcast: false,
  state: "waiting",
  known: true,
  why: null,
  consumer_id: null,
  pull_sequence: null,
  pulled_at: null,
  acked_at: null,
  retries: [],
  dead_letters: [],
  links_complete: true,
  links_why: null,
};
const link = (attempt: number, second: number): Link => ({
  subject: "%RETRY%s%billing",
  broker_group: "main",
  sequence: String(attempt),
  stored_at: at(second),
  attempt,
  state: null,
});
const short = (steps: ReturnType<typeof inGroup>) => steps.map(({ kind, sinceSeconds }) => [kind, sinceSeconds]);

test("a delayed message was kept back until it was due", () => {
  const delayed = { ...message, properties: { qmq_scheduleReceiveTime: String(ms(9)) } };
  expect(short(beginning(delayed))).toEqual([
    ["created", null],
    ["due", 8],
    ["stored", 1],
  ]);
  expect(short(beginning(message))).toEqual([
    ["created", null],
    ["stored", 9],
  ]);
});

test("pulled and acked, with the time between", () => {
  const acked = { ...standing, state: "acked", consumer_id: "c1", pulled_at: at(12), acked_at: at(15) };
  expect(short(inGroup(acked, at(10)))).toEqual([
    ["pulled", 2],
    ["acked", 3],
  ]);
});

test("an unknown instant is no instant: what lies beside it is unknown too", () => {
  const acked = { ...standing, state: "acked", consumer_id: "c1", acked_at: at(15) };
  expect(short(inGroup(acked, at(10)))).toEqual([
    ["pulled", null],
    ["acked", null],
  ]);
  expect(laneOf(acked, at(10), ms(60)).stretches).toEqual([]);
});

test("a message that was sent back was not handled, though it is acked", () => {
  const dead = {
    ...standing,
    state: "dead",
    consumer_id: "c1",
    pulled_at: at(11),
    acked_at: at(12),
    retries: [link(3, 30), link(2, 12)],
    dead_letters: [link(4, 40)],
  };
  expect(short(inGroup(dead, at(10)))).toEqual([
    ["pulled", 1],
    ["retry", 1],
    ["retry", 18],
    ["dead", 10],
  ]);
  expect(laneOf(dead, at(10), ms(99))).toEqual({
    group: "billing",
    stretches: [
      { kind: "waiting", from: ms(10), to: ms(11) },
      { kind: "in_flight", from: ms(11), to: ms(12) },
      { kind: "retrying", from: ms(12), to: ms(30) },
      { kind: "retrying", from: ms(30), to: ms(40) },
    ],
    marks: [
      { kind: "retry", at: ms(12), label: 2 },
      { kind: "retry", at: ms(30), label: 3 },
      { kind: "dead", at: ms(40), label: 4 },
    ],
  });
});

test("what waits or is in flight lasts until now; what was skipped does not", () => {
  expect(laneOf(standing, at(10), ms(20)).stretches).toEqual([{ kind: "waiting", from: ms(10), to: ms(20) }]);
  const inFlight = { ...standing, state: "in_flight", consumer_id: "c", pulled_at: at(12) };
  expect(laneOf(inFlight, at(10), ms(20)).stretches.at(-1)).toEqual({ kind: "in_flight", from: ms(12), to: ms(20) });
  expect(laneOf({ ...standing, state: "skipped" }, at(10), ms(20)).stretches).toEqual([]);
});
