import { expect, test } from "vitest";
import { isLive, LAST_HOUR, rangeOf, spanAt, spanProblem, textOfSpan } from "@/shared/ranges/range";

const NOW = Date.UTC(2026, 10, 30, 12);
const iso = (hoursAgo: number) => new Date(NOW - hoursAgo * 3_600_000).toISOString();

test("an address has a preset or both ends of a span", () => {
  expect(rangeOf("7d")).toEqual({ preset: "7d", seconds: 604_800, span: null });
  const span = { from: iso(30), to: iso(6) };
  expect(rangeOf(textOfSpan(span))).toEqual({ preset: "custom", seconds: 86_400, span });
  expect(spanAt(rangeOf("6h"), NOW)).toEqual({ from: iso(6), to: iso(0) });
  expect(spanAt(rangeOf(textOfSpan(span)), NOW)).toEqual(span);
});

test.each(["", "90d", "constructor", "2026-11-30", `${iso(1)}/`, `/${iso(1)}`, `${iso(1)}/${iso(2)}`, "a/b"])(
  "%s is no range: the last hour is shown",
  (text) => {
    expect(rangeOf(text)).toEqual(LAST_HOUR);
  },
);

test("a span that can't be shown has a reason", () => {
  expect(spanProblem({ from: iso(2), to: iso(2) }, NOW)).toBe("order");
  expect(spanProblem({ from: iso(2), to: iso(-1) }, NOW)).toBe("future");
  expect(spanProblem({ from: iso(721), to: iso(0) }, NOW)).toBe("long");
  expect(spanProblem({ from: iso(720), to: iso(0) }, NOW)).toBeUndefined();
});

test("short ranges that end now continue live", () => {
  expect(["1h", "6h", "24h", textOfSpan({ from: iso(1), to: iso(0) })].map((text) => isLive(rangeOf(text)))).toEqual([
    true,
    true,
    false,
    false,
  ]);
});
