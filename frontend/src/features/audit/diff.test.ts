import { expect, test } from "vitest";
import { diff } from "@/features/audit/diff";

test("only fields that differ, with what was not there as null", () => {
  expect(diff({ owner: "shop", tags: ["a"], limit: 1 }, { owner: "shop", tags: ["a", "b"], note: "x" })).toEqual([
    { name: "tags", before: '["a"]', after: '["a","b"]' },
    { name: "limit", before: "1", after: null },
    { name: "note", before: null, after: "x" },
  ]);
});

test("a creation has no before, a deletion no after, a plain value is one field", () => {
  expect(diff(null, { owner: null })).toEqual([{ name: "owner", before: null, after: "null" }]);
  expect(diff({ a: 1 }, null)).toEqual([{ name: "a", before: "1", after: null }]);
  expect(diff("x", "y")).toEqual([{ name: "value", before: "x", after: "y" }]);
});
