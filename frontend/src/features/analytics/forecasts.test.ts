import { expect, test } from "vitest";
import { isLearning, meaningOfNull } from "@/features/analytics/forecasts";

const drain = { outlook: "possible", case_class: "from_2_hours", drain_seconds_mid: null, drain_seconds_high: null };

test("a drain time of a class that is null is over a day; without a class nothing is known", () => {
  expect(meaningOfNull(drain, "drain_seconds_mid")).toBe("over_a_day");
  expect(meaningOfNull(drain, "drain_seconds_high")).toBe("over_a_day");
  expect(meaningOfNull({ ...drain, case_class: "none" }, "drain_seconds_mid")).toBeUndefined();
  expect(meaningOfNull(drain, "lag_messages_last")).toBeUndefined();
});

test("while a forecast is learning, its estimate can be over a day and its bounds are not known", () => {
  const learning = { ...drain, outlook: "unknown" };
  expect(isLearning(learning)).toBe(true);
  expect(meaningOfNull(learning, "drain_seconds_mid")).toBe("over_a_day");
  expect(meaningOfNull(learning, "drain_seconds_low")).toBeUndefined();
  expect(isLearning(drain)).toBe(false);
  expect(isLearning({ outlook: "unknown", case_class: "none" })).toBe(false);
});

test("a disk that does not grow is never full; one without an estimate is unknown", () => {
  const disk = { outlook: "unknown", growth_bytes_per_second_mid: -5, growth_bytes_per_second_low: null };
  expect(isLearning(disk)).toBe(true);
  expect(meaningOfNull(disk, "full_seconds_mid")).toBe("never");
  expect(meaningOfNull(disk, "full_seconds_high")).toBeUndefined();
  expect(isLearning({ ...disk, growth_bytes_per_second_mid: null })).toBe(false);
});
