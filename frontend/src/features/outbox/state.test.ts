import { expect, test } from "vitest";
import { database, unmeasured } from "@/features/outbox/samples.testing";
import { stateOf } from "@/features/outbox/state";

test.each([
  ["disabled", unmeasured({ is_enabled: false, unknown: "disabled" })],
  ["unusable", unmeasured({ unknown: "failed", error_code: "database.unreachable" })],
  ["unmeasured", unmeasured({ unknown: "outdated" })],
  ["unserved", database({ leader: null })],
  ["failed", database({})],
  ["relayed", database({ failed: 0 })],
])("the worst of a database is its state: %s", (state, row) => {
  expect(stateOf(row)).toBe(state);
});
