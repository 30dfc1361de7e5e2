import { expect, test } from "vitest";
import { grouped, MARKERS_MAX, markersBetween, NAMED_MAX } from "@/ui/chart/markers";
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

test("markers that would overlap are one sign with their number, the first texts and the worst tone", () => {
  const marks = [{ ...marker(0), tone: "info" as const }, ...[5, 17, 40].map(marker)];
  const [first, second] = grouped(marks, (seconds) => seconds);
  expect(first).toMatchObject({ left: 0, symbol: "3", label: "at 0 · at 5 · at 17", tone: "warning" });
  expect(second).toMatchObject({ left: 40, symbol: "⇄", label: "at 40" });
  const [dense] = grouped(
    Array.from({ length: 50 }, (_, index) => marker(index)),
    () => 7,
  );
  expect(dense?.label.split(" · ")).toHaveLength(NAMED_MAX + 1);
  expect(dense?.label).toMatch(/ · \+46$/);
});
