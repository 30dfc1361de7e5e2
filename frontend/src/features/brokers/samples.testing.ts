import type { MemberState } from "@/features/brokers/members/members";
import type { BrokerGroup, BrokerGroupDetail } from "@/features/brokers/queries";
import type { StopEffect } from "@/features/brokers/stop/queries";
import type { Entry } from "@/live/applyDelta";

/** A broker group as the API returns it, for tests. */
export function brokerGroup(name: string, more: Partial<BrokerGroup> = {}): BrokerGroup {
  return {
    name,
    kind: "broker",
    state: "read_write",
    reported_state: "read_write",
    operator_state: "normal",
    operator_reason: "",
    operator_since: null,
    description: "",
    epoch: "1",
    master: `${name}-a`,
    in_sync: [`${name}-a`],
    in_sync_min: 1,
    in_sync_min_in_force: 1,
    members: [`${name}-a`],
    copies: 1,
    replaced: "",
    replacement: "",
    preferred: [],
    shared_rack: "",
    nodes: [
      {
        node_id: `${name}-a`,
        broker_group: name,
        kind: "broker",
        role: "master",
        is_master: true,
        address: "10.0.0.1:20881",
        admin_address: "10.0.0.1:20981",
        version: "1.0",
        log_end: "5000",
        leased_at: "2026-11-21T10:00:00Z",
        rack: "r1",
      },
    ],
    subjects: 3,
    subjects_moving: 0,
    version: "1",
    created_at: "2026-11-21T09:00:00Z",
    updated_at: "2026-11-21T10:00:00Z",
    ...more,
  };
}

/** A slave in sync as the API returns it, for tests. */
export function member(nodeId: string, more: Partial<MemberState> = {}): MemberState {
  return {
    node_id: nodeId,
    is_member: true,
    is_master: false,
    in_sync: true,
    role: "in_sync",
    epoch: "3",
    log_end: "5000",
    high_watermark: "5000",
    lag_bytes: 0,
    address: "10.0.0.2:20881",
    sync_address: "10.0.0.2:20882",
    rack: "r2",
    reported_at: "2026-11-21T10:00:00Z",
    problem: "",
    problem_why: null,
    limitations: [],
    ...more,
  };
}

/** A broker group as its own page reads it, for tests: a master alone. */
export function groupDetail(name: string, more: Partial<BrokerGroupDetail> = {}): BrokerGroupDetail {
  return {
    ...brokerGroup(name),
    member_states: [member(`${name}-a`, { is_master: true, role: "master" })],
    candidate_problem: "the group has one member",
    candidate_why: { code: "one_member", values: {}, text: "the group has one member" },
    role_history: [],
    may_be_removed: false,
    waiting: [],
    ...more,
  };
}

/** The same with a slave in sync. */
export function replicatedGroup(name: string, more: Partial<BrokerGroupDetail> = {}): BrokerGroupDetail {
  const nodes = [`${name}-a`, `${name}-b`];
  return groupDetail(name, {
    members: nodes,
    in_sync: nodes,
    copies: 2,
    in_sync_min: 2,
    in_sync_min_in_force: 2,
    member_states: [member(`${name}-a`, { is_master: true, role: "master" }), member(`${name}-b`)],
    candidate_problem: "",
    candidate_why: null,
    ...more,
  });
}

/** What stopping a node of a replicated group would mean, for tests: the other one takes over, below the minimum. */
export function stopEffect(nodeId: string, more: Partial<StopEffect> = {}): StopEffect {
  return {
    node_id: nodeId,
    broker_group: "g1",
    kind: "broker",
    is_member: true,
    is_master: true,
    may_stop: false,
    reasons: ["broker group g1 would have 1 in-sync members, below its minimum of 2"],
    why: [
      {
        code: "below_minimum",
        values: { kind: "broker", group: "g1", in_sync: 1, minimum: 2 },
        text: "broker group g1 would have 1 in-sync members, below its minimum of 2",
      },
    ],
    next_master: "g1-b",
    rejects_sends: true,
    in_sync_left: 1,
    in_sync_min: 2,
    subjects: 42,
    sole_subjects: 3,
    consumer_groups: 31,
    send_rate: 20.5,
    pull_rate: 61,
    delivered_per_second: null,
    pending: null,
    unmeasured_reason: null,
    ...more,
  };
}

/** A node as the live feed sends it, for tests. */
export function liveNode(nodeId: string, group: string, more: Entry = {}): Entry {
  return {
    node_id: nodeId,
    broker_group: group,
    kind: "broker",
    is_master: true,
    address: "10.0.0.1:20881",
    is_measured: true,
    state: "read_write",
    reason: null,
    ...more,
  };
}
