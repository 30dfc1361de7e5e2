import { expect, test } from "vitest";
import { sharedLines } from "@/ui/chart/thresholds";
import type { Threshold } from "@/ui/chart/types";

const rule = (label: string, value: number, more: Partial<Threshold> = {}): Threshold => ({
  label,
  value,
  axis: "left",
  tone: "warning",
  ...more,
});

test("rules at one value share a line, which has the worst of their tones", () => {
  const lines = sharedLines([rule("b", 900), rule("a", 50), rule("c", 900, { tone: "critical" })]);
  expect(lines.map(({ label, value, tone }) => [label, value, tone])).toEqual([
    ["a", 50, "warning"],
    ["b, c", 900, "critical"],
  ]);
});

test("equal numbers of two axes are two lines", () => {
  expect(sharedLines([rule("messages", 900), rule("seconds", 900, { axis: "right" })])).toHaveLength(2);
});
