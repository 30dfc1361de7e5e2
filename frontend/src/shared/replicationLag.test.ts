import { expect, test } from "vitest";
import { worstReplicationLag } from "@/shared/replicationLag";

const slave = (node: string, bytes: number | null, group = "g1") => ({
  node_id: node,
  broker_group: group,
  is_master: false,
  reason: null,
  replication_lag_bytes: bytes,
});

test("the slave that is furthest behind, and first one whose lag is not known", () => {
  const master = { node_id: "a", broker_group: "g1", is_master: true, reason: null };
  expect(worstReplicationLag({ a: master }, "g1")).toBeNull();
  const nodes = { a: master, b: slave("b", 10), c: slave("c", 70), d: slave("d", 900, "g2") };
  expect(worstReplicationLag(nodes, "g1")).toEqual({ node: "c", lag: { value: 70, reason: null } });
  expect(worstReplicationLag({ ...nodes, e: slave("e", null) }, "g1")?.node).toBe("e");
});
