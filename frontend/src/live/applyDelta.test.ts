import { expect, test } from "vitest";
import { applyDelta } from "@/live/applyDelta";

const state = { groups: { a: { lag: 1, reason: null }, b: { lag: 2 } }, subjects: { s: { send_rate: 1 } } };

test("set merges fields into an entry and adds new ones", () => {
  const next = applyDelta(state, { groups: { gone: [], set: { a: { lag: 5 }, c: { lag: 3 } } } });
  expect(next.groups).toEqual({ a: { lag: 5, reason: null }, b: { lag: 2 }, c: { lag: 3 } });
  expect(next.subjects).toBe(state.subjects);
});

test("what is gone goes first, so that an entry can be replaced whole", () => {
  const next = applyDelta(state, { groups: { gone: ["a"], set: { a: { lag: null } } } });
  expect(next.groups?.a).toEqual({ lag: null });
});

test("an empty delta leaves the very same state, and none changes the old one", () => {
  expect(applyDelta(state, {})).toBe(state);
  expect(applyDelta(state, { groups: { gone: [], set: {} } })).toBe(state);
  applyDelta(state, { groups: { gone: ["a"], set: {} } });
  expect(state.groups.a.lag).toBe(1);
});
