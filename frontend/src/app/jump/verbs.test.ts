import { expect, test } from "vitest";
import { parseVerb, VERBS, type Verb } from "@/app/jump/verbs";
import type { Found } from "@/app/jump/places";

const WORDS: Record<Verb["id"], string> = {
  pause: "pause,暂停",
  reset: "reset",
  send: "send to,send",
  messages: "messages of",
  dead_letters: "dead letters of",
};
const parsed = (text: string) => {
  const { verb, rest } = parseVerb(text, ({ id }) => WORDS[id]);
  return [verb?.id, rest];
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
