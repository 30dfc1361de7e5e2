import { expect, test } from "vitest";
import { changed, copiesOf, copyProgress, roleOf, servingMaster, successors } from "@/features/brokers/members/members";
import { brokerGroup, member } from "@/features/brokers/samples.testing";

const TWO = { in_sync: ["g1-a", "g1-b"], members: ["g1-a", "g1-b"], copies: 2, in_sync_min_in_force: 2 };

test.each([
  ["complete", TWO, { inSync: 2, wanted: 2, minimum: 2, isBelowMinimum: false }],
  ["below its minimum", { ...TWO, in_sync: ["g1-a"] }, { inSync: 1, wanted: 2, minimum: 2, isBelowMinimum: true }],
  [
    "fewer, with a minimum of 1",
    { ...TWO, in_sync: ["g1-a"], in_sync_min_in_force: 1 },
    { inSync: 1, wanted: 2, minimum: 1, isBelowMinimum: false },
  ],
])("copies: %s", (_, more, expected) => {
  expect(copiesOf(brokerGroup("g1", more))).toEqual(expected);
});

test("a group without members has no copies to show", () => {
  expect(copiesOf(brokerGroup("g1", { members: [], in_sync: [] }))).toBeNull();
});

test("a role that this page does not know is shown as waiting", () => {
  expect(roleOf(member("g1-b", { role: "failed" }))).toEqual({ role: "failed", colour: "red" });
  expect(roleOf(member("g1-b", { role: "observing" })).role).toBe("waiting");
});

test("copy progress is a share only once the size is known", () => {
  const copy = { phase: "log", done_bytes: 250, total_bytes: 1000, bytes_per_second: 50, seconds_left: 15 };
  expect(copyProgress({ replication: { copy } })).toEqual({
    share: 0.25,
    done: 250,
    total: 1000,
    bytesPerSecond: 50,
    secondsLeft: 15,
  });
  expect(copyProgress({ replication: { copy: { ...copy, total_bytes: 0, seconds_left: null } } })).toMatchObject({
    share: null,
    secondsLeft: null,
  });
  expect(copyProgress({ replication: { copy: null } })).toBeNull();
});

test("successors are slaves in sync without a problem", () => {
  const master = member("g1-a", { is_master: true, role: "master" });
  const states = [master, member("g1-b"), member("g1-c", { problem: "it does not send heartbeats", role: "offline" })];
  expect(successors(states).map(({ node_id: node }) => node)).toEqual(["g1-b"]);
  expect(servingMaster(states)).toBe(master);
  expect(servingMaster([{ ...master, role: "offline" }])).toBeUndefined();
});

test("a role change shows the master if that changed, else the set or the members", () => {
  const of = (before: unknown, after: unknown) =>
    changed({
      at: "2026-11-26T10:00:00Z",
      actor: "m",
      action: "broker_group.promote",
      reason: "",
      why: null,
      before,
      after,
    });
  const set = { in_sync: ["g1-a", "g1-b"] };
  expect(of({ master: "g1-a", ...set }, { master: "g1-b", in_sync: ["g1-b"] })).toEqual({ from: "g1-a", to: "g1-b" });
  expect(of(set, { in_sync: ["g1-a"] })).toEqual({ from: "g1-a, g1-b", to: "g1-a" });
  expect(of({ members: ["g1-a"] }, { members: ["g1-a", "g1-b"] })).toEqual({ from: "g1-a", to: "g1-a, g1-b" });
  expect(of(null, { master: "g1-a" })).toEqual({ from: "—", to: "g1-a" });
  expect(of(null, null)).toEqual({ from: "—", to: "—" });
});
