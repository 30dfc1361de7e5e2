import { expect, test } from "vitest";
import type { Place, ResetDone } from "@/features/groups/queries";
import { resetRequest, sequenceProblem, totals } from "@/features/groups/reset";

const fields = { to: "earliest", time: null, sequence: "", brokerGroup: "" } as const;

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

test("a sequence is of one broker group, and digits", () => {
  const request = { ...fields, to: "sequence", sequence: "9007199254740993" } as const;
  expect(resetRequest(request)).toBeNull();
  expect(resetRequest({ ...request, brokerGroup: "g1" })).toEqual({
    to: "sequence",
    sequence: "9007199254740993",
    broker_group: "g1",
  });
  expect(resetRequest({ ...request, brokerGroup: "g1", sequence: "-1" })).toBeNull();
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
  const part = { broker_group: "g1", position: "5", new_position: "0", skipped: 2, repeated: 3, in_flight: 1 };
  const preview = (...broker_groups: ResetDone["broker_groups"]) => ({ broker_groups });
  expect(totals(preview(part, part))).toEqual({ skipped: 4, repeated: 6, in_flight: 2 });
  expect(totals(preview(part, { ...part, skipped: null }))).toEqual({ skipped: null, repeated: 6, in_flight: 2 });
});
