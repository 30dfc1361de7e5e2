import { expect, test } from "vitest";
import { attention } from "@/features/overview/attention";
import type { Overview } from "@/features/overview/queries";

const calm: Overview = {
  subjects: 3,
  consumer_groups: 2,
  broker_groups: { read_write: 2 },
  nodes: 2,
  subjects_moving: 0,
  alerts_firing: { critical: 0 },
  jobs_late: [],
  measured_at: "2026-11-21T10:00:00Z",
  unmeasured_reason: null,
  send_rate: 1,
  ack_rate: 1,
  lag: 0,
  known: null,
  worst: [],
};
const group = { broker_group: "g1", kind: "broker", state: "read_write", operator_state: "normal" };
const node = {
  node_id: "g1-a",
  broker_group: "g1",
  is_measured: true,
  reason: null,
  disk_free_bytes: 50,
  disk_total_bytes: 100,
};
const texts = (items: ReturnType<typeof attention>) => items.map((item) => `${item.level} ${item.text}`);

const NO_ANSWER = { code: "no_response", values: { seconds: 5 }, text: "no answer" };

test("a calm system needs nothing", () => {
  expect(attention(calm, { broker_groups: { g1: group }, nodes: { "g1-a": node } })).toEqual([]);
});

test("the worst comes first", () => {
  const found = attention(
    { ...calm, jobs_late: ["moves"] },
    {
      broker_groups: { g1: { ...group, state: "offline" } },
      nodes: { "g1-a": { ...node, is_measured: false, reason: "no answer", why: NO_ANSWER } },
    },
  );
  expect(found[1]?.why).toBe(NO_ANSWER);
  expect(texts(found)).toEqual(["critical group_offline", "warning node_unmeasured", "warning job_late"]);
  expect([found[0]?.values, found[0]?.target]).toEqual([
    { name: "g1" },
    { to: "/brokers/$name", params: { name: "g1" } },
  ]);
});

test("a group below its minimum of members in sync says so", () => {
  const g1 = { name: "g1", in_sync: ["a"], in_sync_min_in_force: 2, members: ["a", "b"] };
  const [item] = attention(calm, { broker_groups: { g1: { ...group, state: "read_only" } } }, [g1]);
  expect([item?.text, item?.values]).toEqual([
    "group_below_minimum",
    { name: "g1", in_sync: 1, members: 2, minimum: 2 },
  ]);
  const alone = { ...g1, in_sync_min_in_force: 1, members: ["a"] };
  const readOnly = { broker_groups: { g1: { ...group, state: "read_only" } } };
  expect(texts(attention(calm, readOnly, [alone]))).toEqual(["warning group_read_only"]);
});

test("read only by an operator's will is no news; by itself it is", () => {
  const at = (operator_state: string) =>
    texts(attention(calm, { broker_groups: { g1: { ...group, state: "read_only", operator_state } } }));
  expect(at("read_only")).toEqual([]);
  expect(at("normal")).toEqual(["warning group_read_only"]);
});

test("a delay node whose wall clock is behind its group's time needs attention", () => {
  const nodes = { d1: { ...node, node_id: "d1", broker_group: "delay1", clock_ahead_ms: 0, clock_behind_ms: 60_400 } };
  const [item, ...others] = attention(calm, { nodes });
  expect([item?.text, item?.values]).toEqual(["clock_behind", { node: "d1", seconds: 60 }]);
  expect(others).toEqual([]);
});

test("a delay node whose wall clock jumped ahead needs attention until the clocks agree", () => {
  const at = (clock_ahead_ms: number | null) =>
    attention(calm, { nodes: { d1: { ...node, node_id: "d1", broker_group: "delay1", clock_ahead_ms } } });
  expect([texts(at(0)), texts(at(null))]).toEqual([[], []]);
  expect(at(3_600_400)).toEqual([
    {
      level: "critical",
      text: "clock",
      values: { node: "d1", seconds: 3_600 },
      target: { to: "/brokers/$name", params: { name: "delay1" } },
    },
  ]);
});

test("a disk is judged by its share, and an unknown one not at all", () => {
  const at = (free: number | null) => texts(attention(calm, { nodes: { n: { ...node, disk_free_bytes: free } } }));
  expect(at(16)).toEqual([]);
  expect(at(15)).toEqual(["warning disk"]);
  expect(at(5)).toEqual(["critical disk"]);
  expect(at(null)).toEqual([]);
});

test("a broker group that waits for approval is no outage", () => {
  const waiting = { ...group, state: "offline", operator_state: "unapproved" };
  const found = attention(calm, { broker_groups: { g1: waiting } });
  expect(texts(found)).toEqual(["warning group_unapproved"]);
  expect([found[0]?.values, found[0]?.target]).toEqual([
    { name: "g1" },
    { to: "/brokers/$name", params: { name: "g1" } },
  ]);
});
