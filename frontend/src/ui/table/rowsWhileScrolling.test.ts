import { expect, test } from "vitest";
import { rowsWhileScrolling } from "@/ui/table/rowsWhileScrolling";

const at = (startIndex: number) => ({ startIndex, endIndex: startIndex + 9, overscan: 5, count: 1_000 });

test("rows beyond those in view are drawn as long as some in view were there before", () => {
  const rows = rowsWhileScrolling();
  const drawn = (startIndex: number) => {
    const found = rows(at(startIndex));
    return [found[0], found.at(-1)];
  };
  expect(drawn(100)).toEqual([95, 114]);
  expect(drawn(109)).toEqual([104, 123]);
  // All ten are new, further down and further up.
  expect(drawn(119)).toEqual([119, 128]);
  expect(drawn(109)).toEqual([109, 118]);
  expect(drawn(100)).toEqual([95, 114]);
});
