import { expect, test } from "vitest";
import { counted } from "@/features/groups/summary";

test("groups are counted by state, without those that read retries", () => {
  const entries = {
    a: { subject: "orders", state: "stopped" },
    b: { subject: "parts", state: "stopped" },
    c: { subject: "%RETRY%orders%a", state: "growing" },
    d: { subject: "mail", state: "caught_up" },
  };
  const found = counted(entries);
  expect(found).toEqual({ stopped: 2, growing: 0, unknown: 0, draining: 0, paused: 0, caught_up: 1 });
  expect(counted(entries)).toBe(found);
  expect(counted({ ...entries })).not.toBe(found);
});
