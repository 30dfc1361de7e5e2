import { expect, test } from "vitest";
import { criteriaOf, isPair, searchOf } from "@/features/messages/criteria";

test("criteria go into the address and come back", () => {
  const criteria = {
    properties: ["status=paid, late", "note="],
    tag: "eu",
    from: "2026-01-01T00:00:00Z",
    to: "",
    brokerGroup: "main",
  };
  const search = Object.fromEntries(Object.entries(searchOf(criteria)).filter(([, value]) => value !== undefined));
  expect(criteriaOf(search as Record<string, string>)).toEqual(criteria);
});

test("nothing asked for is no search", () => {
  expect(criteriaOf({ after: "2026-01-01T00:00:00Z", broker_group: "main" })).toBeNull();
});

test("a pair has a name", () => {
  expect([isPair("a=b"), isPair("a="), isPair("a=b=c"), isPair("=b"), isPair("a")]).toEqual([
    true,
    true,
    true,
    false,
    false,
  ]);
});
