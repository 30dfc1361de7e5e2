import { expect, test } from "vitest";
import { diskOf, groupVerdict, groupViews, nodeVerdict, withLive } from "@/features/brokers/topology/cluster";
import { brokerGroup, liveNode } from "@/features/brokers/samples.testing";

const liveGroup = (state: string, operator_state = "normal") => ({ state, operator_state, kind: "broker" });

test.each([
  ["offline", "draining", "offline"],
  ["offline", "unapproved", "unapproved"],
  ["read_write", "draining", "draining"],
  ["read_only", "read_only", "read_only"],
  ["read_write", "read_only", "read_only"],
  ["read_only", "normal", "refusing"],
  ["write_only", "normal", "write_only"],
  ["read_write", "normal", "read_write"],
  ["of a newer version", "normal", "offline"],
])("a group that is %s, by its operator %s, is shown as %s", (reported, operator, verdict) => {
  expect(groupVerdict(reported, operator)).toBe(verdict);
});

test("a node that does not answer is not what it was", () => {
  expect(nodeVerdict(undefined)).toBe("unknown");
  expect(nodeVerdict(liveNode("a", "g", { is_measured: false, state: null }))).toBe("unmeasured");
  expect(nodeVerdict(liveNode("a", "g", { state: "read_only" }))).toBe("read_only");
  expect(nodeVerdict(liveNode("a", "g", { state: null, is_master: false }))).toBe("standby");
});

test("what is live goes over what was read", () => {
  const view = withLive(brokerGroup("g1"), {
    broker_groups: { g1: liveGroup("offline") },
    nodes: { "g1-a": liveNode("g1-a", "g1", { send_rate: 3 }), "g1-b": liveNode("g1-b", "g1", { is_master: false }) },
  });
  expect(view.verdict).toBe("offline");
  expect(view.nodes.map((node) => `${node.nodeId} ${node.role}`)).toEqual(["g1-a master", "g1-b slave"]);
  expect(view.master?.numbers?.send_rate).toBe(3);
});

test("without the live feed a group is as it was read, its numbers unknown", () => {
  const view = withLive(brokerGroup("g1", { reported_state: "read_write" }), {});
  expect([view.verdict, view.subjects, view.master?.numbers]).toEqual(["read_write", 3, undefined]);
});

test("a group that came since is drawn too, its subjects unknown", () => {
  const views = groupViews([brokerGroup("g2")], {
    broker_groups: { g1: liveGroup("read_write"), g2: liveGroup("read_write") },
    nodes: { "g1-a": liveNode("g1-a", "g1") },
  });
  expect(views.map(({ name, subjects, nodes }) => [name, subjects, nodes.length])).toEqual([
    ["g1", null, 1],
    ["g2", 3, 1],
  ]);
});

test("a disk is known whole or not at all", () => {
  expect(diskOf({ disk_free_bytes: 25, disk_total_bytes: 100 })).toEqual({
    used: 75,
    total: 100,
    isLast: false,
  });
  const last = { disk_free_bytes: 30, disk_total_bytes: 100 };
  expect(diskOf({ disk_free_bytes: null, disk_total_bytes: null, last })).toEqual({
    used: 70,
    total: 100,
    isLast: true,
  });
  expect(diskOf({ disk_free_bytes: 25 })).toBeNull();
  expect(diskOf(undefined)).toBeNull();
});
