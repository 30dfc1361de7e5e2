import { expect, test } from "vitest";
import { missingBytes, readStats } from "@/features/brokers/topology/stats";

const said = {
  state: "read_only",
  state_reason: "the disk is full",
  state_why: { code: "disk_full", values: {}, text: "the disk is full" },
  uptime_seconds: 12.5,
  connections: 3,
  log: { begin: 100, end: 900, synced_end: 880, damaged: [{ begin: 200, end: 300, why: "bad checksum" }] },
  policy: { version: "ab12", problem: "" },
  replication: {
    damaged_ranges: 3,
    repaired_ranges: 7,
    repairs: {
      pending: [
        { file: "log", begin: 200, end: 300, why: "bad checksum", problem: "from g1-b: no answer" },
        { file: "schedule/2026112913.data", begin: 0, end: 64, why: "messages fail their checks", problem: "" },
      ],
    },
    scrub: { pass_seconds: 90_000, done_share: 0.4, last_pass_age_seconds: null, read_bytes: 5 },
  },
};

test("what a node says of itself", () => {
  expect(readStats(said)).toEqual({
    state: "read_only",
    stateReason: "the disk is full",
    stateWhy: { code: "disk_full", values: {}, text: "the disk is full" },
    uptimeSeconds: 12.5,
    connections: 3,
    logBegin: 100,
    logEnd: 900,
    syncedEnd: 880,
    reportedEnd: 880,
    damaged: [
      { file: "log", begin: 200, end: 300, why: "bad checksum", problem: "from g1-b: no answer" },
      { file: "schedule/2026112913.data", begin: 0, end: 64, why: "messages fail their checks", problem: "" },
    ],
    damagedRanges: 3,
    repairedRanges: 7,
    scrub: { passSeconds: 90_000, share: 0.4, lastPassAge: null },
    policyVersion: "ab12",
    policyProblem: "",
  });
});

test("what a node of another version does not say is unknown, not zero", () => {
  const stats = readStats({ log: "?" });
  expect([stats.connections, stats.logEnd, stats.state]).toEqual([null, null, null]);
  expect([stats.repairedRanges, stats.damagedRanges, stats.scrub, stats.damaged]).toEqual([null, null, null, []]);
  expect(missingBytes("500", stats)).toBeNull();
  expect(missingBytes("500", null)).toBeNull();
});

test("a log that ends below what it had reported has lost the rest; one that grew meanwhile nothing", () => {
  const stats = readStats(said);
  expect(missingBytes("1000", stats)).toBe(120);
  expect(missingBytes("880", stats)).toBe(0);
  expect(missingBytes("700", stats)).toBe(0);
});

test("what a node with an older folder has stored since that was noticed brings nothing back", () => {
  const stats = readStats({ ...said, log: { ...said.log, synced_end: 2000, reported_end: 600 } });
  expect(missingBytes("1000", stats)).toBe(400);
});
