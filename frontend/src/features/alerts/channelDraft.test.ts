import { expect, test } from "vitest";
import { draftOf, headersOf, isComplete, NEW_CHANNEL, toChange, toChannel } from "@/features/alerts/channelDraft";
import type { Channel } from "@/features/alerts/queries";

const hook = { name: "pager", kind: "webhook", addresses: null } as unknown as Channel;

test("what was not typed of a channel's secrets is not sent", () => {
  expect(toChange(draftOf(hook))).toEqual({ name: "pager" });
  expect(toChange({ ...draftOf(hook), secret: "a secret of sixteen" })).toEqual({
    name: "pager",
    secret: "a secret of sixteen",
  });
  expect(toChange({ ...draftOf(hook), secret: "typed", dropsSecret: true })).toEqual({ name: "pager", secret: null });
});

test("a webhook needs a URL when it is made, e-mail its addresses", () => {
  const draft = { ...NEW_CHANNEL, name: "pager" };
  expect(isComplete(draft, true)).toBe(false);
  expect(isComplete(draft, false)).toBe(true);
  expect(isComplete({ ...draft, url: "https://example.com/hook" }, true)).toBe(true);
  expect([true, false].map((isNew) => isComplete({ ...draft, url: "ftp://example.com" }, isNew))).toEqual([
    false,
    false,
  ]);
  expect(isComplete({ ...draft, kind: "email", url: "https://example.com" }, true)).toBe(false);
  expect(toChannel({ ...draft, kind: "email", addresses: " a@example.com \n\nb@example.com" })).toEqual({
    name: "pager",
    kind: "email",
    language: "en",
    addresses: ["a@example.com", "b@example.com"],
  });
});

test("only the fields of its kind are sent", () => {
  const draft = {
    ...NEW_CHANNEL,
    name: "ops",
    language: "zh" as const,
    url: " https://example.com/hook ",
    secret: "a secret of sixteen",
    headers: "not a header",
  };
  const url = "https://example.com/hook";
  expect(toChannel({ ...draft, kind: "slack" })).toEqual({ name: "ops", kind: "slack", language: "zh", url });
  expect(toChannel({ ...draft, kind: "dingtalk" })).toEqual({
    name: "ops",
    kind: "dingtalk",
    language: "zh",
    url,
    secret: "a secret of sixteen",
  });
  expect(isComplete({ ...draft, kind: "wecom" }, true)).toBe(true);
  expect(isComplete({ ...draft, kind: "webhook" }, true)).toBe(false);
});

test("headers are read line by line", () => {
  expect(headersOf("Authorization: Bearer a:b\n\n X-Team : shop ")).toEqual({
    Authorization: "Bearer a:b",
    "X-Team": "shop",
  });
  expect(headersOf("Authorization")).toBeNull();
  expect(headersOf(": nothing")).toBeNull();
});
