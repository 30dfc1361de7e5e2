import { expect, test } from "vitest";
import { personName } from "@/format/names";

test.each([
  ["静", "陈", "陈静"],
  ["Ada", "Lovelace", "Ada Lovelace"],
  ["", "Lovelace", "Lovelace"],
  ["", "", ""],
])("%s %s is %s", (first_name, last_name, name) => {
  expect(personName({ first_name, last_name })).toBe(name);
});
