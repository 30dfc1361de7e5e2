import { expect, test } from "vitest";
import { rangeOf } from "@/features/analytics/range";

const NOW = Date.parse("2026-11-21T12:00:00Z");

test("a preset ends now", () => {
  expect(rangeOf({ range: "7d" }, NOW)).toEqual({
    preset: "7d",
    from: "2026-11-14T12:00:00.000Z",
    to: "2026-11-21T12:00:00.000Z",
  });
});

test("a custom range is what the address says", () => {
  const search = { range: "custom", from: "2026-11-01T00:00:00Z", to: "2026-11-02T00:00:00Z" };
  expect(rangeOf(search, NOW)).toEqual({
    preset: "custom",
    from: "2026-11-01T00:00:00.000Z",
    to: "2026-11-02T00:00:00.000Z",
  });
});

test.each<Readonly<Record<string, string>>>([
  {},
  { range: "9y" },
  { range: "custom" },
  { range: "custom", from: "yesterday", to: "2026-11-02T00:00:00Z" },
  { range: "custom", from: "2026-11-03T00:00:00Z", to: "2026-11-02T00:00:00Z" },
])("%j is the last day", (search) => {
  expect(rangeOf(search, NOW)).toMatchObject({ preset: "24h", from: "2026-11-20T12:00:00.000Z" });
});
