import { expect, test } from "vitest";
import { clearOf, isComplete, NEW_RULE, toRule, withKind } from "@/features/alerts/ruleDraft";

const lag = { ...NEW_RULE, name: " Lag ", threshold: 1_000 };

test("a clear threshold that is left empty is left to the API", () => {
  expect(toRule(lag)).toMatchObject({ name: "Lag", threshold: 1_000, clear_threshold: null });
  expect(clearOf(lag)).toBe(800);
  expect(toRule({ ...lag, clear_threshold: 0 })).toMatchObject({ clear_threshold: 0 });
});

test("a state ends with what made it fire: 80 % of offline is no state", () => {
  expect(toRule(withKind(lag, "group_state"))).toMatchObject({ threshold: 1, clear_threshold: 1 });
  expect(toRule(withKind(lag, "unknown"))).toMatchObject({ threshold: 0, clear_threshold: 0 });
});

test("a threshold of messages is none of seconds", () => {
  expect(isComplete(lag)).toBe(true);
  expect(isComplete(withKind(lag, "time_lag"))).toBe(false);
});

test("only dead letters are counted within a window", () => {
  expect(toRule(lag)).not.toHaveProperty("window_seconds");
  expect(toRule({ ...withKind(lag, "dead_letters"), threshold: 0 })).toMatchObject({ window_seconds: 600 });
});
