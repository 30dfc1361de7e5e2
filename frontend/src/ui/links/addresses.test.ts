import { expect, test } from "vitest";
import type { Target } from "@/ui/links/addresses";

test("the compiler knows the pages, their parameters and what links may name behind the `?`", () => {
  const good: Target[] = [
    { to: "/groups/$subject/$group", params: { subject: "a", group: "b" } },
    { to: "/alerts", search: { tab: "rules", search: "a" } },
  ];
  const bad: Target[] = [
    // @ts-expect-error no such page
    { to: "/nowhere" },
    // @ts-expect-error a parameter is missing
    { to: "/groups/$subject/$group", params: { subject: "a" } },
    // @ts-expect-error the page knows no such name
    { to: "/alerts", search: { tap: "rules" } },
  ];
  expect(good.length + bad.length).toBe(5);
});
