import { expect, test } from "vitest";
import { NO_TAIL, rowKey, tailAfter, type TailMessage, type TailRow, type TailView } from "@/features/messages/tail";

const message = (sequence: number, properties: Record<string, string> = {}): TailMessage => ({
  broker_group: "main",
  sequence: String(sequence),
  message_id: `id-${sequence}`,
  stored_at: null,
  tags: ["eu"],
  properties,
  bytes: 10,
  is_cut: false,
  reason: null,
  masked_values: [],
  decoding: null,
});
const delta = (...sequences: number[]) => ({
  type: "delta",
  messages: sequences.map((sequence) => message(sequence)),
  left_out: 2,
  unknown: {},
});
const hear = (view: TailView, heard: { type: string }, keep = 10) =>
  tailAfter(view, { kind: "heard", message: heard, keep });
const keys = (rows: readonly TailRow[]) => rows.map(rowKey);

test("newest first, and no more than are kept", () => {
  const view = hear(hear(NO_TAIL, delta(1, 2, 3), 4), delta(4, 5), 4);
  expect(keys(view.rows)).toEqual(["main:5", "main:4", "main:3", "main:2"]);
  expect(view.arrived).toBe(5);
  expect(view.leftOut).toBe(4);
});

test("paused it stands still, and goes on with what came meanwhile", () => {
  const paused = tailAfter(hear(NO_TAIL, delta(1)), { kind: "pause" });
  const waiting = hear(paused, delta(2, 3));
  expect(keys(waiting.rows)).toEqual(["main:1"]);
  expect(keys(waiting.waiting)).toEqual(["main:3", "main:2"]);
  const on = tailAfter(waiting, { kind: "resume", keep: 10 });
  expect(keys(on.rows)).toEqual(["main:3", "main:2", "main:1"]);
  expect(on.waiting).toEqual([]);
});

test("what waits is bounded too", () => {
  const paused = tailAfter(NO_TAIL, { kind: "pause" });
  expect(hear(paused, delta(1, 2, 3, 4), 3).waiting).toHaveLength(3);
});

test("a connection that was lost leaves a gap, the first one none", () => {
  const first = hear(NO_TAIL, { type: "snapshot" });
  expect(first.rows).toEqual([]);
  const again = hear(hear(first, delta(1)), { type: "snapshot" });
  expect(keys(again.rows)).toEqual(["gap 1", "main:1"]);
});

test("a changed filter empties the list", () => {
  expect(tailAfter(hear(NO_TAIL, delta(1)), { kind: "begin" })).toEqual(NO_TAIL);
});
