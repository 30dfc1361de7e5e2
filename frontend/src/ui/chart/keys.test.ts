import { expect, test } from "vitest";
import { pointedAfter, zoomedAfter } from "@/ui/chart/keys";

const at = Array.from({ length: 101 }, (_, index) => 1_000 + index);

test("arrows move the pointer, and stop at both ends", () => {
  expect(pointedAfter("ArrowLeft", 5, 10)).toBe(4);
  expect(pointedAfter("ArrowRight", 9, 10)).toBe(9);
  expect(pointedAfter("PageUp", 5, 10)).toBe(0);
  expect(pointedAfter("End", 0, 10)).toBe(9);
  expect(pointedAfter("a", 5, 10)).toBeUndefined();
});

test("plus halves what is shown around the pointer, inside what there is", () => {
  expect(zoomedAfter("+", at, 50, null)).toEqual({ min: 1_025, max: 1_075 });
  expect(zoomedAfter("+", at, 100, null)).toEqual({ min: 1_050, max: 1_100 });
  expect(zoomedAfter("+", at, 0, { min: 1_000, max: 1_006 })).toEqual({ min: 1_000, max: 1_005 });
});

test("minus widens until all is shown; 0 and Escape show all", () => {
  expect(zoomedAfter("-", at, 50, { min: 1_040, max: 1_060 })).toEqual({ min: 1_030, max: 1_070 });
  expect(zoomedAfter("-", at, 50, { min: 1_020, max: 1_080 })).toBeNull();
  expect(zoomedAfter("0", at, 50, { min: 1_020, max: 1_080 })).toBeNull();
  expect(zoomedAfter("Escape", at, 50, { min: 1_020, max: 1_080 })).toBeNull();
});

test("Escape with all shown belongs to whoever is around, a dialog say", () => {
  expect(zoomedAfter("Escape", at, 50, null)).toBeUndefined();
  expect(zoomedAfter("x", at, 50, null)).toBeUndefined();
});
