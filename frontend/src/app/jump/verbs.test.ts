import { expect, test } from "vitest";
import { parseVerb, VERBS, type Verb } from "@/app/jump/verbs";
import type { Found } from "@/app/jump/places";
import zh from "@/i18n/zh/common.json";

const WORDS: Record<Verb["id"], string> = {
  pause: "pause,暂停",
  reset: "reset",
  send: "send to,send",
  messages: "messages of",
  dead_letters: "dead letters of",
};
const parsed = (text: string, words = WORDS) => {
  const { verb, rest, isGuess } = parseVerb(text, ({ id }) => words[id]);
  return [verb?.id, rest, ...(isGuess ? ["guess"] : [])];
};

test("a text begins with a verb, or is only looked for", () => {
  expect(parsed("pause fraud")).toEqual(["pause", "fraud"]);
  expect(parsed(" Pause  fraud check ")).toEqual(["pause", "fraud check"]);
  expect(parsed("send to order.created")).toEqual(["send", "order.created"]);
  expect(parsed("send order.created")).toEqual(["send", "order.created"]);
  expect(parsed("暂停fraud")).toEqual(["pause", "fraud"]);
  expect(parsed("fraud")).toEqual([undefined, "fraud"]);
});

test("a name that begins like a verb is no verb", () => {
  expect(parsed("pauses")).toEqual([undefined, "pauses"]);
  expect(parsed("pause")).toEqual([undefined, "pause"]);
  expect(parsed("resetting it")).toEqual([undefined, "resetting it"]);
});

test.each([
  ["puase fraud-check", "pause", "fraud-check"],
  ["Pase  fraud check", "pause", "fraud check"],
  ["pausee fraud", "pause", "fraud"],
  ["rezet fraud", "reset", "fraud"],
  ["sned to order.created", "send", "order.created"],
  ["sned order.created", "send", "order.created"],
  ["messagse of order", "messages", "order"],
  ["daed lettres of order", "dead_letters", "order"],
])("%s is taken for %s, and may be a name", (text, verb, rest) => {
  expect(parsed(text)).toEqual([verb, rest, "guess"]);
});

test.each(["psaeu fraud", "snd2 x", "puase", "daed of order", "pauses", "order send to"])("%s is no verb", (text) => {
  expect(parsed(text)[0]).toBeUndefined();
});

test("a verb that is spelled right comes before one that is nearly so", () => {
  const words = { ...WORDS, pause: "sent", reset: "send" };
  expect(parsed("send x", words)).toEqual(["reset", "x"]);
});

test("a Chinese verb without Chinese input is typed in letters, and has no errors itself", () => {
  const words = { ...WORDS, pause: zh.jump.word.pause, send: zh.jump.word.send };
  expect(parsed("暂停 fraud", words)).toEqual(["pause", "fraud"]);
  expect(parsed("发送至order.created", words)).toEqual(["send", "order.created"]);
  expect(parsed("zanting fraud", words)).toEqual(["pause", "fraud"]);
  expect(parsed("zhanting fraud", words)).toEqual(["pause", "fraud", "guess"]);
  expect(parsed("暂听 fraud", words)).toEqual([undefined, "暂听 fraud"]);
  expect(parsed("暂停", words)).toEqual([undefined, "暂停"]);
});

test("each verb leads to a page of what it is done with", () => {
  const found = (kind: Found["kind"]): Found => ({
    kind,
    name: "n",
    subject: kind === "consumer_group" ? "s" : null,
    broker_group: null,
    sequence: null,
    text: "",
  });
  const addresses = VERBS.map(({ id, kind, address }) => [id, address(found(kind))]);
  expect(Object.fromEntries(addresses)).toMatchObject({
    pause: { to: "/groups/$subject/$group", params: { subject: "s", group: "n" }, search: { do: "pause" } },
    reset: { search: { do: "reset" } },
    dead_letters: { to: "/dead-letters/$subject/$group" },
    send: { to: "/subjects/$subject", params: { subject: "n" }, search: { tab: "messages", do: "send" } },
    messages: { search: { tab: "messages" } },
  });
});
