import { expect, test } from "vitest";
import { explained } from "@/features/groups/state";

const base = { lag: 40, time_lag_seconds: 30, ack_rate: 2, consumers_online: 1, drain_seconds: null };

test.each([
  [{ state: "caught_up" }, "caught_up"],
  [{ state: "caught_up", lag: 0 }, "caught_up_idle"],
  [{ state: "idle", lag: 0, consumers_online: 0 }, "idle"],
  [{ state: "draining", drain_seconds: 90 }, "draining"],
  [{ state: "growing" }, "growing"],
  [{ state: "stopped", ack_rate: 0 }, "stopped"],
  [{ state: "stopped", ack_rate: 0, consumers_online: 0 }, "stopped_alone"],
  [{ state: "paused" }, "paused"],
  [{ state: "paused", lag: 0 }, "paused_idle"],
  [{ state: "unknown", lag: null }, "unknown"],
])("%j is explained by %s", (numbers, why) => {
  expect(explained({ ...base, ...numbers }).why).toBe(why);
});

test("a state names how long it takes to drain, every other how long the oldest waits", () => {
  expect(explained({ ...base, state: "draining", drain_seconds: 90 }).seconds).toBe(90);
  expect(explained({ ...base, state: "growing" }).seconds).toBe(30);
});

test("nothing heard, or a word of a later version, is unknown and no number is made up", () => {
  const unknown = { lag: null, seconds: null, rate: null, consumers: null };
  const nothing = { state: "unknown", why: "unknown", ...unknown };
  expect(explained(undefined)).toEqual(nothing);
  expect(explained({ state: "someday" })).toEqual(nothing);
});
