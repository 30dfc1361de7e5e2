import { expect, test } from "vitest";
import type { Place, ResetDone } from "@/features/groups/queries";
import { isUndoable, NO_PLACE, resetRequest, sequenceProblem, startRequest, totals } from "@/features/groups/reset";

const fields = NO_PLACE;

test("the ends need nothing more", () => {
  expect(resetRequest(fields)).toEqual({ to: "earliest" });
  expect(resetRequest({ ...fields, to: "latest", brokerGroup: "g1" })).toEqual({
    to: "latest",
    broker_group: "g1",
  });
});

test("a time needs to be given", () => {
  expect(resetRequest({ ...fields, to: "time", time: "2026-11-21T10:00:00.000Z" })).toEqual({
    to: "time",
    time: "2026-11-21T10:00:00.000Z",
  });
  expect(resetRequest({ ...fields, to: "time" })).toBeNull();
});

test("sequences are digits, of the broker groups that are to be set", () => {
  const positions = (given: Record<string, string>) => resetRequest({ ...fields, to: "positions", positions: given });
  expect(positions({ g1: "9007199254740993", g2: "" })).toEqual({
    to: "positions",
    positions: { g1: "9007199254740993" },
  });
  expect(positions({})).toBeNull();
  expect(positions({ g1: "" })).toBeNull();
  expect(positions({ g1: "5", g2: "-1" })).toBeNull();
});

test("positions of another group need its name", () => {
  expect(resetRequest({ ...fields, to: "group" })).toBeNull();
  expect(resetRequest({ ...fields, to: "group", fromGroup: "audit" })).toEqual({ to: "group", from_group: "audit" });
});

test("a new group starts where its first consumer decides, or at a place", () => {
  expect(startRequest({ ...fields, to: "consumer" })).toEqual({});
  expect(startRequest({ ...fields, to: "latest" })).toEqual({ start: "latest" });
  expect(startRequest({ ...fields, to: "time" })).toBeNull();
  expect(startRequest({ ...fields, to: "group", fromGroup: "audit" })).toEqual({ start: "group", from_group: "audit" });
});

test("only a reset that moved a known position can be undone", () => {
  expect(isUndoable({ before: { g1: "5" }, after: { g1: "9" } })).toBe(true);
  expect(isUndoable({ before: { g1: "5" }, after: { g1: "5", g2: "9" } })).toBe(false);
  expect(isUndoable({ before: {}, after: { g1: "9" } })).toBe(false);
});

test("a sequence outside what is stored is told, also past 2^53", () => {
  const place = { begin_sequence: "9007199254740993", end_sequence: "9007199254740999" } as Place;
  expect(sequenceProblem("9007199254740992", place)).toBe("outside");
  expect(sequenceProblem("9007199254740993", place)).toBeNull();
  expect(sequenceProblem("9007199254740999", place)).toBeNull();
  expect(sequenceProblem("1e3", place)).toBe("digits");
  expect(sequenceProblem("", place)).toBeNull();
  expect(sequenceProblem("5", undefined)).toBeNull();
});

test("a preview is summed, and unknown when a part is", () => {
  const part = {
    broker_group: "g1",
    position: "5",
    new_position: "0",
    skipped: 2,
    repeated: 3,
    in_flight: 1,
    pending: 4,
  };
  const preview = (...broker_groups: ResetDone["broker_groups"]) => ({ broker_groups });
  expect(totals(preview(part, part))).toEqual({ skipped: 4, repeated: 6, in_flight: 2, pending: 8 });
  expect(totals(preview(part, { ...part, skipped: null }))).toEqual({
    skipped: null,
    repeated: 6,
    in_flight: 2,
    pending: 8,
  });
});
