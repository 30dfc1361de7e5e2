import { expect, test } from "vitest";
import { EMPTY, faultsOf, messageOf } from "@/features/messages/draft";

test("a message needs a body or properties, each with a name of its own", () => {
  expect(faultsOf(EMPTY)).toEqual(["nothing"]);
  expect(faultsOf({ ...EMPTY, body: "x" })).toEqual([]);
  const twice = [
    { name: "a", value: "1" },
    { name: "a", value: "2" },
    { name: "", value: "" },
    { name: "data", value: "" },
  ];
  expect(faultsOf({ ...EMPTY, body: "x", properties: twice })).toEqual(["name_missing", "name_twice", "name_body"]);
});

test("a later delivery needs to say when", () => {
  expect(faultsOf({ ...EMPTY, body: "x", when: "delay" })).toEqual(["delay_missing"]);
  expect(faultsOf({ ...EMPTY, body: "x", when: "due" })).toEqual(["due_missing"]);
});

test("the request holds what was filled in and nothing else", () => {
  expect(messageOf({ ...EMPTY, body: "{}" }, "")).toEqual({ properties: { data: "{}" } });
  expect(
    messageOf(
      {
        body: "",
        properties: [{ name: "id", value: " 7 " }],
        tags: ["eu"],
        when: "delay",
        delay: 2,
        unit: "hours",
        due: "2026-01-01T00:00:00Z",
      },
      "try",
    ),
  ).toEqual({ properties: { id: " 7 " }, tags: ["eu"], delay_seconds: 7200, reason: "try" });
});
