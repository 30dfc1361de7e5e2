import { expect, test } from "vitest";
import { areComplete, EMPTY_RULE, rulesOf, unmatched, type Rule } from "@/features/subjects/masking";

const rule = (some: Partial<Rule>): Rule => ({ ...EMPTY_RULE, ...some });

test("what a rule leaves out is filled in", () => {
  expect(rulesOf({ masking: [{ properties: ["card"] }] })).toEqual([
    { properties: ["card"], json_paths: [], roles: [], how: "hide" },
  ]);
  expect(rulesOf({})).toEqual([]);
});

test("a rule has to name something", () => {
  expect(areComplete([])).toBe(true);
  expect(areComplete([rule({ properties: ["a"] }), rule({ json_paths: ["b"] })])).toBe(true);
  expect(areComplete([rule({ properties: ["a"] }), rule({})])).toBe(false);
});

test("patterns that hide nothing of a message are named, of the rules that apply to the role", () => {
  const rules = [rule({ properties: ["card", "typo"], json_paths: ["a.b"] }), rule({ properties: ["x"], roles: [] })];
  const value = { property: "card", rule: "card", how: "hide", why: null } as const;
  expect(unmatched(rules, "operator", [value])).toEqual(["typo", "a.b", "x"]);
  expect(unmatched(rules, "admin", [value])).toEqual(["x"]);
  expect(unmatched(rules, "operator", [{ ...value, why: "not_json" }])).toEqual([]);
});
