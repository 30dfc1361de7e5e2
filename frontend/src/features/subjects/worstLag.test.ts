import { expect, test } from "vitest";
import { worstLag } from "@/features/subjects/worstLag";

const NONE = "no group";

test("the group that is furthest behind", () => {
  const entry = { highest_lag: 9, highest_lag_group: "y", reason: null };
  expect(worstLag(entry, NONE)).toMatchObject({ value: 9, reason: null, group: "y" });
});

test("a group that is not measured completely makes the highest a lower bound", () => {
  const reason = "node b1: connection refused";
  const at_least = { highest_lag: 90, highest_lag_group: "z" };
  const last = { highest_lag: 5 };
  const entry = { highest_lag: null, highest_lag_group: null, reason, missing: ["b"], at_least, last };
  expect(worstLag(entry, NONE)).toMatchObject({ value: null, reason, missing: ["b"], atLeast: 90, group: "z" });
  expect(worstLag(entry, NONE).last).toBeUndefined();
  expect(worstLag({ highest_lag: null, reason }, NONE).atLeast).toBeUndefined();
});

test("a subject without groups says so, one that is not known yet does not", () => {
  const without = { highest_lag: null, highest_lag_group: null, reason: null };
  expect(worstLag(without, NONE)).toMatchObject({ value: null, reason: NONE, group: undefined });
  expect(worstLag(undefined, NONE)).toMatchObject({ value: null, reason: null });
});
