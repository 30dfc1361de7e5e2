import { expect, test } from "vitest";
import { readProperties } from "@/features/delayed/properties";

test("a property a line; values may hold anything", () => {
  expect(readProperties("campaign=winter\n\n note = a=b c \nempty=")).toEqual({
    properties: { campaign: "winter", note: "a=b c", empty: "" },
    wrong: null,
  });
});

test.each(["winter", "=winter"])("%s is no property", (line) => {
  expect(readProperties(`a=1\n${line}`).wrong).toBe(line);
});
