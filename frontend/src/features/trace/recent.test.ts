import { expect, test } from "vitest";
import { RECENT_MAX, recentOf, withRecent } from "@/features/trace/recent";

const place = (sequence: string) => ({ subject: "%RETRY%order.paid%billing", brokerGroup: "main", sequence });

test("the newest is in front, and each is there once", () => {
  let text = withRecent(undefined, place("1"));
  text = withRecent(text, place("2"));
  text = withRecent(text, place("1"));
  expect(recentOf(text)).toEqual([place("1"), place("2")]);
});

test("only so many are kept", () => {
  let text = "";
  for (let number = 0; number < RECENT_MAX + 3; number += 1) text = withRecent(text, place(String(number)));
  expect(recentOf(text)).toHaveLength(RECENT_MAX);
});

test("what somebody mistyped is left out", () => {
  expect(recentOf("a/b order.paid/main/7 x/y/z/1")).toEqual([
    { subject: "order.paid", brokerGroup: "main", sequence: "7" },
  ]);
});
