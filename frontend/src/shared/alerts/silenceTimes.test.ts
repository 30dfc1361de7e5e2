import { expect, test } from "vitest";
import { endsAt, PRESETS, SILENCE_DAYS_MAX, UNTIL } from "@/shared/alerts/silenceTimes";

const now = Date.parse("2026-11-21T10:00:00Z");

test("a preset counts from now, an instant is itself", () => {
  expect(endsAt("15m", null, now)).toBe("2026-11-21T10:15:00.000Z");
  expect(endsAt("7d", null, now)).toBe("2026-11-28T10:00:00.000Z");
  expect(endsAt(UNTIL, "2026-11-22T00:00:00.000Z", now)).toBe("2026-11-22T00:00:00.000Z");
  expect(endsAt(UNTIL, null, now)).toBeNull();
  expect(endsAt("for ever", null, now)).toBeNull();
});

test("no preset is longer than the API allows", () => {
  expect(Math.max(...PRESETS.map(({ minutes }) => minutes))).toBeLessThanOrEqual(SILENCE_DAYS_MAX * 1_440);
});
