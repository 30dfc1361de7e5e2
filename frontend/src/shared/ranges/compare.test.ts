import { expect, test } from "vitest";
import { comparedOf, spansOf } from "@/shared/ranges/compare";
import { rangeOf } from "@/shared/ranges/range";

const NOW = Date.UTC(2026, 10, 30, 12);
const iso = (hoursAgo: number) => new Date(NOW - hoursAgo * 3_600_000).toISOString();
const span = (from: number, to: number) => ({ from: iso(from), to: iso(to) });

test("both spans have the same length", () => {
  expect(spansOf(rangeOf("6h"), "before", NOW)).toEqual({ later: span(6, 0), earlier: span(12, 6) });
  expect(spansOf(rangeOf("6h"), "day", NOW)).toEqual({ later: span(6, 0), earlier: span(30, 24) });
  expect(spansOf(rangeOf("24h"), "week", NOW)).toEqual({ later: span(24, 0), earlier: span(192, 168) });
});

test("before and after an instant, and as short as the time since", () => {
  expect(spansOf(rangeOf("6h"), { around: iso(10) }, NOW)).toEqual({ later: span(10, 4), earlier: span(16, 10) });
  expect(spansOf(rangeOf("6h"), { around: iso(2) }, NOW)).toEqual({ later: span(2, 0), earlier: span(4, 2) });
  expect(spansOf(rangeOf("6h"), { around: iso(-1) }, NOW)).toBeNull();
});

test("an address names what is compared", () => {
  expect(comparedOf("week")).toBe("week");
  expect(comparedOf(iso(3))).toEqual({ around: iso(3) });
  for (const text of [undefined, "", "month", "toString"]) expect(comparedOf(text)).toBeUndefined();
});
