import { expect, test } from "vitest";
import { draftOf, EMPTY, faultsOf, messageOf, obstacleOf } from "@/features/messages/draft";
import type { Message } from "@/features/messages/queries";

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

test("the draft of a stored message has what its producer gave it", () => {
  const stored = {
    tags: ["eu"],
    masked_values: [],
    decoding: null,
    properties: {
      "data#part0": '{"a":',
      "data#part1": "1}",
      region: "eu",
      qmq_createTime: "1",
      qmq_console_user: "ada",
    },
  } as unknown as Message;
  const draft = draftOf(stored);
  expect(draft).toEqual({ ...EMPTY, body: '{"a":1}', properties: [{ name: "region", value: "eu" }], tags: ["eu"] });
  expect(messageOf(draft, "").properties).toEqual({ data: '{"a":1}', region: "eu" });
  expect(obstacleOf(stored)).toBeUndefined();
  expect(obstacleOf({ ...stored, properties: { data: "x".repeat(200_001) } })).toBe("send.too_long");
  expect(obstacleOf({ ...stored, decoding: { format: "avro", problem: null } })).toBeUndefined();
  const card = { property: "card", rule: "card", how: "hide", why: null } as const;
  expect(obstacleOf({ ...stored, masked_values: [card] })).toBe("send.masked");
});
