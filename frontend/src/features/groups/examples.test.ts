import { expect, test } from "vitest";
import { consumeCommand, consumeInPython } from "@/features/groups/examples";

test("names are quoted as the shell and Python take them", () => {
  expect(consumeCommand("order.paid", "billing")).toBe("qmq consume order.paid billing");
  expect(consumeCommand("it's", "a b")).toBe(`qmq consume 'it'\\''s' 'a b'`);
  expect(consumeInPython('say "hi"', "g")).toContain('"say \\"hi\\"", "g"');
});
