import { expect, test } from "vitest";
import { verdictOf } from "@/features/jobs/verdict";

const fine = { is_enabled: true, is_late: false, error: "", is_running: false, succeeded_at: "2026-11-21T10:00:00Z" };

test.each([
  ["fine", {}],
  ["off", { is_enabled: false, is_late: true }],
  ["late", { is_late: true, error: "x" }],
  ["failed", { error: "the database is away" }],
  ["running", { is_running: true }],
  ["never", { succeeded_at: null }],
] as const)("%s", (verdict, more) => {
  expect(verdictOf({ ...fine, ...more })).toBe(verdict);
});
