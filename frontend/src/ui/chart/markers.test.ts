import { expect, test } from "vitest";
import { MARKERS_MAX, markersBetween } from "@/ui/chart/markers";
import type { Marker } from "@/ui/chart/types";

const marker = (at: number): Marker => ({ at, label: `at ${at}`, symbol: "⇄", tone: "warning" });

test("markers outside of what is shown are left out, and the others are in order", () => {
  const found = markersBetween([marker(30), marker(9), marker(10), marker(21)], 10, 30);
  expect(found.map(({ at }) => at)).toEqual([10, 21, 30]);
});

test("of too many markers the newest are drawn", () => {
  const many = Array.from({ length: MARKERS_MAX + 5 }, (_, index) => marker(index));
  const found = markersBetween(many, 0, 1_000);
  expect([found.length, found[0]?.at]).toEqual([MARKERS_MAX, 5]);
});
