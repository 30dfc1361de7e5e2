import { expect, test } from "vitest";
import { safeNext } from "@/features/sign_in/next";

const HERE = "https://console.example";

test("a page of this console, with what its address holds", () => {
  expect(safeNext("/groups?search=a%20b&ordering=-lag#x", HERE)).toBe("/groups?search=a%20b&ordering=-lag#x");
});

test.each([
  undefined,
  "",
  "groups",
  "https://evil.example/",
  "//evil.example/",
  "/\\evil.example/",
  "/\t/evil.example/",
  "/.//evil.example",
  "javascript:alert(1)",
  "/sign-in?next=/sign-in",
])("%j leads to the first page", (next) => {
  expect(safeNext(next, HERE)).toBe("/");
});
