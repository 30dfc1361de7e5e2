import { expect, test } from "vitest";
import { heldOn, shareDone } from "@/features/groups/places";
import type { Member } from "@/features/groups/queries";

const place = (begin: string | null, next: string | null, end: string | null) => ({
  begin_sequence: begin,
  next_sequence: next,
  end_sequence: end,
});

test("the share that is passed counts what is stored, past 2^53 too", () => {
  expect(shareDone(place("100", "150", "200"))).toBe(0.5);
  expect(shareDone(place("9007199254740993", "9007199254741018", "9007199254741093"))).toBe(0.25);
  expect(shareDone(place("0", "0", "0"))).toBe(1);
});

test("a group that retention overtook has passed nothing of what is left", () => {
  expect(shareDone(place("100", "40", "200"))).toBe(0);
});

test("what was not measured is no share", () => {
  expect(shareDone(place(null, null, null))).toBeNull();
});

test("ranges in flight are named with their last sequence, the oldest first", () => {
  const member = (broker_group: string, consumer_id: string, in_flight_ranges: string[][], total: number) =>
    ({ broker_group, consumer_id, in_flight_ranges, in_flight_ranges_total: total }) as Member;
  const members = [
    member("g1", "b", [["20", "25"]], 1),
    member("g1", "a", [["7", "8"]], 30),
    member("g2", "a", [["1", "9"]], 1),
  ];
  expect(heldOn(members, "g1")).toEqual({
    ranges: [
      { begin: "7", last: "7", consumer: "a" },
      { begin: "20", last: "24", consumer: "b" },
    ],
    total: 31,
  });
});
