import { expect, test } from "vitest";
import { worstLags } from "@/features/subjects/worstLag";

test("the group with the highest lag of each subject", () => {
  const groups = { "a\nx": { lag: 3 }, "a\ny": { lag: 9 }, "a\nz": { lag: 4 }, "b\nx": { lag: 0 } };
  expect(worstLags(groups).get("a")).toMatchObject({ value: 9, reason: null, group: "y" });
  expect(worstLags(groups).get("b")).toMatchObject({ value: 0, reason: null, group: "x" });
  expect(worstLags(groups).get("c")).toBeUndefined();
  expect(worstLags(groups)).toBe(worstLags(groups));
});

test("a group that is not measured completely makes the highest a lower bound, whatever the order", () => {
  const reason = "node b1: connection refused";
  const partial = { lag: null, reason, missing: ["b"], at_least: { lag: 40 } };
  const measured = { "a\nx": { lag: 3 }, "a\nz": { lag: 90 } };
  for (const groups of [
    { "a\ny": partial, ...measured },
    { ...measured, "a\ny": partial },
  ]) {
    expect(worstLags(groups).get("a")).toMatchObject({ value: null, reason, missing: ["b"], atLeast: 90, group: "z" });
  }
  expect(worstLags({ "a\ny": partial }).get("a")).toMatchObject({ value: null, atLeast: 40, group: "y" });
});

test("nothing known is no lower bound", () => {
  const reason = "node b1: connection refused";
  const away = { lag: null, reason };
  const found = worstLags({ "a\nx": away, "a\ny": away }).get("a");
  expect(found).toMatchObject({ value: null, reason });
  expect(found?.atLeast).toBeUndefined();
});
