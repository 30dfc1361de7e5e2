import { expect, test } from "vitest";
import { spanOf } from "@/features/alerts/past";

const span = (begin: string, end: string) => ({
  stored_in: "analytics" as const,
  begin: `2026-11-${begin}:00:00Z`,
  end: `2026-11-${end}:00:00Z`,
});

test("what was looked at is the sum of its parts, gaps left out", () => {
  expect(spanOf([])).toBeNull();
  expect(spanOf([span("20T10", "20T12"), span("21T09", "21T10")])).toEqual({ seconds: 10_800, isShort: true });
  expect(spanOf([span("20T10", "21T10")])).toEqual({ seconds: 86_400, isShort: false });
});
