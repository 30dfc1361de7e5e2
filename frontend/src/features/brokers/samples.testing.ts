import type { BrokerGroup } from "@/features/brokers/queries";
import type { Entry } from "@/live/applyDelta";

/** A broker group as the API tells it, for tests. */
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
    members: [`${name}-a`],
    copies: 1,
    preferred: [],
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

/** A node as the live feed tells it, for tests. */
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
