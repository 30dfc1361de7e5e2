import { expect, test } from "vitest";
import { editOf, faultOf, toRequest } from "@/features/dead_letters/edit";
import { letter } from "@/features/dead_letters/stories.testing";

test("properties of the protocol are not edited", () => {
  const found = editOf(letter("1", { properties: { data: "{}", qmq_times: "4", id: "7" }, tags: ["a"] }));
  expect(found).toEqual({
    properties: [
      { name: "data", text: "{}" },
      { name: "id", text: "7" },
    ],
    tags: ["a"],
    decoding: null,
  });
  expect(found && toRequest(found)).toEqual({ properties: { data: "{}", id: "7" }, tags: ["a"] });
});

test("what can't be read can't be edited", () => {
  expect(editOf(letter("1", { masked: true, properties: null }))).toBeNull();
  expect(editOf(letter("1", { withheld: "damaged" }))).toBeNull();
});

test("names must be there, different, and not of the protocol", () => {
  const of = (...names: string[]) => faultOf({ properties: names.map((name) => ({ name, text: "" })) });
  expect([of(), of("a", "b"), of(""), of("a", "a"), of("qmq_times")]).toEqual([
    null,
    null,
    "name_missing",
    "name_twice",
    "name_system",
  ]);
});
