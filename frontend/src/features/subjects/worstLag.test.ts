import { expect, test } from "vitest";
import { worstLags } from "@/features/subjects/worstLag";

test("the furthest behind of each subject", () => {
  const groups = { "a\nx": { lag: 3 }, "a\ny": { lag: 9 }, "a\nz": { lag: 4 }, "b\nx": { lag: 0 } };
  expect(worstLags(groups).get("a")).toEqual({ lag: 9, reason: null, group: "y", groups: 3 });
  expect(worstLags(groups).get("b")).toEqual({ lag: 0, reason: null, group: "x", groups: 1 });
  expect(worstLags(groups).get("c")).toBeUndefined();
  expect(worstLags(groups)).toBe(worstLags(groups));
});

test("one group that could not be measured makes the worst unknown, whatever the order", () => {
  const away = { lag: null, reason: "node b1 does not answer" };
  for (const groups of [
    { "a\nx": { lag: 3 }, "a\ny": away, "a\nz": { lag: 90 } },
    { "a\ny": away, "a\nx": { lag: 3 }, "a\nz": { lag: 90 } },
  ]) {
    expect(worstLags(groups).get("a")).toEqual({ lag: null, reason: "node b1 does not answer", group: "y", groups: 3 });
  }
});
