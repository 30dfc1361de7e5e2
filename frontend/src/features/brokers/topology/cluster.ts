import type { BrokerGroup, Kind, NodeRow } from "@/features/brokers/queries";
import { textOf } from "@/format/values";
import type { Entry, LiveState } from "@/live/applyDelta";
import { measured, type Reading } from "@/live/useLive";

/** A node as pages show it: where it is, and its newest numbers. */
export interface NodeView {
  nodeId: string;
  role: "master" | "slave";
  address: string;
  kind: Kind;
  /** Where it runs, as it was started; "": not set, or not known yet. */
  rack: string;
  /** What the collector measured; undefined before it is known. */
  numbers: Entry | undefined;
}

/** A broker or delay group as pages show it. */
export interface GroupView {
  name: string;
  kind: Kind;
  verdict: GroupVerdict;
  /** Null until the API was asked: the live feed has no placement. */
  subjects: number | null;
  subjectsMoving: number;
  nodes: readonly NodeView[];
  /** The numbers that stand for the group. */
  master: NodeView | undefined;
}

/**
 * The one word for how a group does. `refusing`: read only by itself, a full disk say; `read_only`: an operator wants
 * it; `unapproved`: it registered for the first time and waits for approval.
 */
export type GroupVerdict =
  "unapproved" | "offline" | "draining" | "read_only" | "refusing" | "write_only" | "read_write";
/** `standby`: a slave, which serves no clients; `unmeasured`: it does not answer; `unknown`: nothing is known yet. */
export type NodeVerdict = "read_write" | "read_only" | "write_only" | "offline" | "standby" | "unmeasured" | "unknown";

export const COLOURS: Record<GroupVerdict | NodeVerdict, string> = {
  read_write: "teal",
  read_only: "yellow",
  write_only: "yellow",
  refusing: "orange",
  draining: "blue",
  unapproved: "orange",
  offline: "red",
  standby: "blue",
  unmeasured: "red",
  unknown: "gray",
};

const STATES: ReadonlySet<unknown> = new Set(["read_write", "read_only", "write_only", "offline"]);

export function groupVerdict(reported: string, operator: string): GroupVerdict {
  if (operator === "unapproved") return "unapproved";
  if (reported === "read_write" || reported === "read_only" || reported === "write_only") {
    if (operator === "draining") return "draining";
    if (operator === "read_only") return "read_only";
    return reported === "read_only" ? "refusing" : reported;
  }
  return "offline";
}

export function nodeVerdict(numbers: Entry | undefined): NodeVerdict {
  if (!numbers) return "unknown";
  if (numbers.is_measured === false) return "unmeasured";
  if (numbers.state === null && numbers.is_master === false) return "standby";
  return STATES.has(numbers.state) ? (numbers.state as NodeVerdict) : "unknown";
}

type ReadNode = Pick<NodeRow, "node_id" | "kind" | "is_master" | "address" | "rack">;

function viewOf(row: ReadNode, numbers: Entry | undefined): NodeView {
  const { node_id: nodeId, kind, rack } = row;
  const isMaster = numbers ? numbers.is_master === true : row.is_master;
  const address = textOf(numbers?.address) || row.address;
  return { nodeId, kind, rack, address, role: isMaster ? "master" : "slave", numbers };
}

function kindOf(entry: Entry): Kind {
  return entry.kind === "delay" ? "delay" : "broker";
}

type ReadGroup = Pick<
  BrokerGroup,
  "name" | "kind" | "reported_state" | "operator_state" | "nodes" | "subjects_moving"
> & { subjects: number | null };

/** A group that the API has not answered yet. */
const UNREAD: Omit<ReadGroup, "name" | "kind"> = {
  reported_state: "offline",
  operator_state: "normal",
  nodes: [],
  subjects: null,
  subjects_moving: 0,
};

/** A group of the API, with what is known live: states and numbers of this second, nodes that came since. */
export function withLive(row: ReadGroup, live: LiveState): GroupView {
  const group = live.broker_groups?.[row.name];
  const known = new Set(row.nodes.map((node) => node.node_id));
  const added = Object.values(live.nodes ?? {}).filter(
    (entry) => entry.broker_group === row.name && !known.has(textOf(entry.node_id)),
  );
  const nodes = [
    ...row.nodes.map((node) => viewOf(node, live.nodes?.[node.node_id])),
    ...added.map((entry) =>
      viewOf({ node_id: textOf(entry.node_id), kind: kindOf(entry), is_master: false, address: "", rack: "" }, entry),
    ),
  ].sort((a, b) => Number(b.role === "master") - Number(a.role === "master") || a.nodeId.localeCompare(b.nodeId));
  return {
    name: row.name,
    kind: row.kind,
    verdict: groupVerdict(
      textOf(group?.state) || row.reported_state,
      textOf(group?.operator_state) || row.operator_state,
    ),
    subjects: row.subjects,
    subjectsMoving: row.subjects_moving,
    nodes,
    master: nodes.find((node) => node.role === "master"),
  };
}

/** All groups of the drawing, by name: those of the API, and those that only the live feed knows yet. */
export function groupViews(rows: readonly BrokerGroup[], live: LiveState): GroupView[] {
  const known = new Set(rows.map((row) => row.name));
  const added = Object.entries(live.broker_groups ?? {})
    .filter(([name]) => !known.has(name))
    .map(([name, entry]): ReadGroup => ({ ...UNREAD, name, kind: kindOf(entry) }));
  return [...rows, ...added].map((row) => withLive(row, live)).sort((a, b) => a.name.localeCompare(b.name));
}

/** A rack with its nodes, each with the name of its group; `rack` is "" for nodes without one. */
export interface RackView {
  rack: string;
  nodes: readonly (NodeView & { group: string })[];
}

/** The racks of groups by name, nodes without one at the end. */
export function rackViews(groups: readonly GroupView[]): RackView[] {
  const found = new Map<string, (NodeView & { group: string })[]>();
  for (const { name: group, nodes } of groups)
    for (const node of nodes) found.set(node.rack, [...(found.get(node.rack) ?? []), { ...node, group }]);
  return [...found]
    .map(([rack, nodes]) => ({ rack, nodes }))
    .sort((a, b) => Number(a.rack === "") - Number(b.rack === "") || a.rack.localeCompare(b.rack));
}

/** The replication lag of a slave in bytes, as its master reports it; the reason why it is not known. */
export function lagOf(numbers: Entry | undefined, unknown: string): Reading {
  const lag = measured(numbers, "replication_lag_bytes");
  return lag.value === null ? { ...lag, reason: lag.reason ?? unknown } : lag;
}

/**
 * Used and whole bytes of a node's disk, `isLast` if they are from the last measurement; null if it was never measured.
 */
export function diskOf(numbers: Entry | undefined): { used: number; total: number; isLast: boolean } | null {
  const free = measured(numbers, "disk_free_bytes");
  const total = measured(numbers, "disk_total_bytes");
  const freeBytes = free.value ?? free.last;
  const totalBytes = total.value ?? total.last;
  if (freeBytes === undefined || totalBytes === undefined || totalBytes <= 0) return null;
  return { used: totalBytes - freeBytes, total: totalBytes, isLast: free.value === null };
}
