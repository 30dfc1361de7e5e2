import { expect, test } from "vitest";
import { choice, defineColumns, headers } from "@/ui/table/define";

test("a column has the header of its ID and the API's field of its name, unless it names others", () => {
  const columns = defineColumns<{ name: string }>(
    headers((key) => `<${key}>`),
    (column) => [
      column("name", { sort: true, isFixed: true }, (row) => row.name),
      column("seen", { header: "Seen", sort: "seen_at" }, () => "—"),
      column("plain", () => "—"),
      false,
    ],
  );
  expect(columns.map(({ id, header, sort }) => [id, header, sort])).toEqual([
    ["name", "<column.name>", "name"],
    ["seen", "Seen", "seen_at"],
    ["plain", "<column.plain>", undefined],
  ]);
  expect(columns[0]?.cell({ name: "a" })).toBe("a");
});

test("a choice is made of texts by value, or of values and their text", () => {
  const options = [
    { value: "true", label: "on" },
    { value: "false", label: "off" },
  ];
  expect(choice("is_on", "State", { true: "on", false: "off" }).options).toEqual(options);
  expect(choice("is_on", "State", ["true", "false"], (value) => (value === "true" ? "on" : "off")).options).toEqual(
    options,
  );
});
