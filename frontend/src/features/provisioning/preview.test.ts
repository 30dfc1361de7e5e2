import { expect, test } from "vitest";
import { dangerousName, differences, grouped } from "@/features/provisioning/preview";
import type { Preview, PreviewStep } from "@/features/provisioning/queries";

const step = (action: PreviewStep["action"], target: string): PreviewStep => ({
  kind: "subject",
  action,
  target,
  before: null,
  after: null,
});
const preview = (...steps: PreviewStep[]): Preview => ({ dry_run: true, is_change: true, steps, drift: [] });

test("steps are shown by what they do, what stays apart", () => {
  const { changes, kept } = grouped(preview(step("keep", "a"), step("archive", "b"), step("create", "c")));
  expect([...changes.keys()]).toEqual(["create", "archive"]);
  expect(kept.map(({ target }) => target)).toEqual(["a"]);
});

test("archiving takes a name, the rest does not", () => {
  expect(dangerousName(preview(step("create", "a"), step("archive", "b")))).toBe("b");
  expect(dangerousName(preview(step("update", "a")))).toBeUndefined();
});

test("only fields that differ; what is empty is not set", () => {
  const before = { tags: ["a"], retention_hours: 12, description: "" };
  const after = { tags: ["a", "b"], retention_hours: 12, description: null };
  expect(differences({ before, after })).toEqual([{ field: "tags", before: '["a"]', after: '["a","b"]' }]);
  expect(differences({ before: null, after: { name: "x", tags: [] } })).toEqual([
    { field: "name", before: null, after: "x" },
  ]);
});
