import { expect, test } from "vitest";
import { consumersOf, countsOf, ratesOf } from "@/features/groups/members";
import type { Member } from "@/features/groups/queries";

const member = (broker_group: string, consumer_id: string, values: Partial<Member> = {}): Member => ({
  broker_group,
  consumer_id,
  address: null,
  duplicate_addresses: [],
  online: true,
  last_seen_seconds: 1,
  in_flight: 0,
  in_flight_ranges: [],
  in_flight_ranges_total: 0,
  pulled: "0",
  acked: "0",
  oldest_unacked_ms: null,
  unacked_seconds: 0,
  is_paused: false,
  reasons: {},
  ...values,
});

test("a consumer that reads from two broker groups is one", () => {
  const members = [
    member("g1", "b", { in_flight: 2, last_seen_seconds: 4, unacked_seconds: 1, online: false }),
    member("g2", "b", { in_flight: 3, last_seen_seconds: null, unacked_seconds: 9, address: "10.0.0.1:5" }),
  ];
  const [one, ...others] = consumersOf({ members, paused_consumers: [] });
  expect(others).toEqual([]);
  expect(one).toMatchObject({ isOnline: true, inFlight: 5, lastSeen: 4, unackedSeconds: 9, address: "10.0.0.1:5" });
});

test("an ID that several processes use shows all their connections once", () => {
  const members = [
    member("g1", "b", { duplicate_addresses: ["10.0.0.2:7", "10.0.0.1:5"] }),
    member("g2", "b", { duplicate_addresses: ["10.0.0.1:5", "10.0.0.1:9"] }),
    member("g1", "c"),
  ];
  const found = consumersOf({ members, paused_consumers: [] });
  expect(found.map((one) => one.duplicateAddresses)).toEqual([["10.0.0.1:5", "10.0.0.1:9", "10.0.0.2:7"], []]);
});

test("whoever is online comes first, and a paused consumer that is away is not lost", () => {
  const members = [member("g1", "z"), member("g1", "a", { online: false }), member("g1", "c")];
  const found = consumersOf({ members, paused_consumers: ["gone", "z"] });
  expect(found.map(({ id }) => id)).toEqual(["c", "z", "a", "gone"]);
  expect(found.at(-1)).toMatchObject({ isPaused: true, isKnown: false, lastSeen: null });
});

test("rates come from counts at two moments, summed over broker groups", () => {
  const at = (pulled: string, acked: string) => [
    member("g1", "a", { pulled, acked }),
    member("g2", "a", { pulled: "9007199254740993", acked: "5" }),
  ];
  const parts = at("20", "12");
  const first = countsOf(at("10", "10"), 1_000);
  expect(ratesOf(parts, first, countsOf(parts, 3_000))).toEqual({ pulled: 5, acked: 1 });
});

test("without two moments, or after a count began anew, a rate is unknown and not zero", () => {
  const unknown = { pulled: null, acked: null };
  const parts = [member("g1", "a", { pulled: "3", acked: "3" })];
  const now = countsOf(parts, 2_000);
  expect(ratesOf(parts, undefined, now)).toEqual(unknown);
  expect(ratesOf(parts, now, now)).toEqual(unknown);
  expect(ratesOf(parts, countsOf([], 1_000), now)).toEqual(unknown);
  expect(ratesOf(parts, countsOf([member("g1", "a", { pulled: "9", acked: "1" })], 1_000), now)).toEqual(unknown);
});
