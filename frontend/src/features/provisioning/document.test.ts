import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { contentType, EXAMPLE, lineOf, rangeOfLine } from "@/features/provisioning/document";

test("JSON is told from YAML by its brace", () => {
  expect(contentType('\n  {"subjects": []}')).toBe("application/json");
  expect(contentType(EXAMPLE)).toBe("application/yaml");
});

test.each([
  ['while parsing a block mapping\n  in "<byte string>", line 2, column 5:\ndid not find key, line 3, column 6', 3],
  ["'name' is named twice in one mapping, line 4", 4],
  ["the YAML can't be read: line 9000", 14],
  ["subject order.remind: allowed_groups: a list is needed", 12],
  ["consumer group shipping of order.paid: tags: ...", 11],
  ["subject nobody: unknown", null],
  ["the document: a mapping is needed", null],
])("%s", (detail, line) => {
  expect(lineOf(detail, EXAMPLE)).toBe(line);
});

test("a line's place in the text", () => {
  expect(rangeOfLine("ab\ncde\nf", 2)).toEqual([3, 6]);
});

test("the example is that of the deployment", () => {
  const deployed = readFileSync("../deploy/example.yaml", "utf8");
  const body = (text: string) => text.slice(text.indexOf("subjects:"));
  expect(body(EXAMPLE)).toBe(body(deployed));
});
