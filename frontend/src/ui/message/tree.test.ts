import { expect, test } from "vitest";
import { childrenOf, hasChildren, openAtFirst, pathOf, rootOf, type JsonNode } from "@/ui/message/tree";

const TEXT = ' {"id": 12345678901234567890, "a\\"b": [1, {"x": "y, {z}"}, []], "id": -1.50e3, "none": null, "e": {}} ';
const textOf = (text: string, { begin, end }: JsonNode) => text.slice(begin, end);

test("children are what the text has, in its order, numbers and repeated keys as they are", () => {
  const { nodes, next } = childrenOf(TEXT, rootOf(TEXT), 100);
  expect(next).toBeNull();
  expect(nodes.map((node) => [node.key, node.kind, textOf(TEXT, node)])).toEqual([
    ["id", "number", "12345678901234567890"],
    ['a"b', "list", '[1, {"x": "y, {z}"}, []]'],
    ["id", "number", "-1.50e3"],
    ["none", "word", "null"],
    ["e", "object", "{}"],
  ]);
  expect(nodes.map((node) => hasChildren(TEXT, node))).toEqual([false, true, false, false, false]);
});

test("more children begin where the last ones ended", () => {
  const list = `[${Array.from({ length: 7 }, (_, n) => n * 11).join(" ,\n")}]`;
  const root = rootOf(list);
  const first = childrenOf(list, root, 3);
  const second = childrenOf(list, root, 3, first.next ?? undefined);
  const third = childrenOf(list, root, 3, second.next ?? undefined);
  expect([first, second, third].map(({ nodes }) => nodes.map((node) => [node.key, textOf(list, node)]))).toEqual([
    [
      [0, "0"],
      [1, "11"],
      [2, "22"],
    ],
    [
      [3, "33"],
      [4, "44"],
      [5, "55"],
    ],
    [[6, "66"]],
  ]);
  expect(third.next).toBeNull();
});

test("the first levels are open, until the tree is long", () => {
  const small = '{"a":{"b":[1,{"c":2}]}}';
  expect(openAtFirst(small, 100).size).toBe(4);
  const wide = JSON.stringify(
    Object.fromEntries(Array.from({ length: 50 }, (_, n) => [`k${n}`, { x: 1, y: 2, z: 3 }])),
  );
  expect(openAtFirst(wide, 100).size).toBeLessThan(30);
  expect(openAtFirst(wide, 100).has(0)).toBe(true);
});

test.each([
  ["20,000 levels", "[".repeat(20_000) + "]".repeat(20_000)],
  ["4,000,000 levels", "[".repeat(4_000_000) + "]".repeat(4_000_000)],
  ["1,000,000 elements", `[${"1,".repeat(999_999)}1]`],
  ["one string of 8,000,000 characters", `["${'\\"a'.repeat(2_666_666)}"]`],
  ["8,000,000 spaces", `[${" ".repeat(8_000_000)}1]`],
])("of %s only the first are taken apart", (_, text) => {
  const open = openAtFirst(text, 100);
  expect(open.has(0)).toBe(true);
  expect(open.size).toBeLessThanOrEqual(120);
  expect(childrenOf(text, rootOf(text), 100).nodes.length).toBeLessThanOrEqual(100);
});

test("paths are those of programs", () => {
  expect(pathOf("", "items")).toBe("items");
  expect(pathOf("items", 0)).toBe("items[0]");
  expect(pathOf("items[0]", "sku")).toBe("items[0].sku");
  expect(pathOf("", "a b")).toBe('["a b"]');
  expect(pathOf("x", 'say "hi"')).toBe('x["say \\"hi\\""]');
});
