import { expect, test } from "vitest";
import { literal, placeOf } from "@/shared/alerts/place";

const live = {
  nodes: { "b1/1": { node_id: "b1-1", broker_group: "b1" } },
  jobs: { heartbeats: { name: "heartbeats" } },
};

test.each([
  ["lag", "order.paid/billing", "/groups/$subject/$group", { subject: "order.paid", group: "billing" }],
  ["dead_letters", "order.paid/billing", "/dead-letters/$subject/$group", { subject: "order.paid", group: "billing" }],
  ["unknown", "order.paid/billing", "/groups/$subject/$group", { subject: "order.paid", group: "billing" }],
  ["anomaly", "order.paid/billing", "/groups/$subject/$group", { subject: "order.paid", group: "billing" }],
  ["anomaly", "order.paid", "/subjects/$subject", { subject: "order.paid" }],
  ["drain_time", "order.paid/billing", "/groups/$subject/$group", { subject: "order.paid", group: "billing" }],
  ["disk_in_a_day", "b1-1", "/brokers/$name", { name: "b1" }],
  ["group_state", "b1", "/brokers/$name", { name: "b1" }],
  ["copies", "b1", "/brokers/$name", { name: "b1" }],
  ["replication", "b1-1", "/brokers/$name", { name: "b1" }],
  ["disk", "b1-1", "/brokers/$name", { name: "b1" }],
  ["unknown", "b1-1", "/brokers/$name", { name: "b1" }],
  ["unknown", "heartbeats", "/jobs", undefined],
  ["job_late", "rebalance", "/jobs", undefined],
] as const)("%s of %s leads to %s", (kind, target, to, params) => {
  expect(placeOf(kind, target, live)).toEqual(params ? { to, params } : { to });
});

test("an alert of an outbox leads to its database, whatever it is called", () => {
  expect(placeOf("outbox_age", "shop/eu", live)).toEqual({ to: "/outbox", search: { search: "shop/eu" } });
});

test("what nobody knows leads nowhere", () => {
  expect(placeOf("disk", "gone-1", live)).toBeNull();
  expect(placeOf("unknown", "collector", {})).toBeNull();
});

test("a name with a glob's signs means itself", () => {
  expect(literal("Disk > 85 % [a] of *?")).toBe("Disk > 85 % [[]a] of [*][?]");
});
