import { expect, test } from "vitest";
import type { Delayed } from "@/features/delayed/queries";
import { keyOf, targetOf } from "@/features/delayed/target";

const row = (more: Partial<Delayed>): Delayed => ({
  message_id: "m1",
  subject: "order.remind",
  delay_group: "d1",
  due_at: "2026-11-21T10:00:00.123Z",
  state: "pending",
  created_at: null,
  tags: [],
  properties: null,
  size: 1,
  masked: true,
  masked_values: [],
  decoding: null,
  may_change: true,
  ...more,
});

test.each([{}, { message_id: "an id with spaces" }, { due_at: null }])("a key names its message: %o", (more) => {
  const { message_id, subject, due_at } = row(more);
  expect(targetOf(keyOf(row(more)))).toEqual({ message_id, subject, due_at });
});
