import type { Overview } from "@/features/overview/queries";
import type { Entry, LiveState } from "@/live/applyDelta";
import type { Target } from "@/ui/addresses";

/** Something an operator should look at; `text` is a key below `overview:attention.`, `values` its values. */
export interface Item {
  level: "critical" | "warning";
  text: string;
  values: Readonly<Record<string, string | number>>;
  target: Target;
}

const DISK_WARN = 0.15;
const DISK_BAD = 0.05;

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function groupOf(node: Entry): Target {
  return { to: "/brokers/$name", params: { name: text(node.broker_group) } };
}

function diskItems(nodes: readonly Entry[]): Item[] {
  return nodes.flatMap((node): Item[] => {
    const { disk_free_bytes: free, disk_total_bytes: total } = node;
    if (typeof free !== "number" || typeof total !== "number" || total <= 0) return [];
    const share = free / total;
    if (share > DISK_WARN) return [];
    return [
      {
        level: share <= DISK_BAD ? "critical" : "warning",
        text: "disk",
        values: { node: text(node.node_id), free: `${Math.round(share * 100)} %` },
        target: groupOf(node),
      },
    ];
  });
}

function clockItems(nodes: readonly Entry[]): Item[] {
  return nodes.flatMap((node): Item[] => {
    const { clock_ahead_ms: ahead } = node;
    if (typeof ahead !== "number" || ahead <= 0) return [];
    return [
      {
        level: "critical",
        text: "clock",
        values: { node: text(node.node_id), seconds: Math.round(ahead / 1_000) },
        target: groupOf(node),
      },
    ];
  });
}

/** What needs attention, worst first, of the overview and of the live state of nodes. Pure. */
export function attention(overview: Overview, live: LiveState): Item[] {
  const nodes = Object.values(live.nodes ?? {});
  const items: Item[] = [];
  for (const [name, group] of Object.entries(live.broker_groups ?? {})) {
    const target: Target = { to: "/brokers/$name", params: { name } };
    if (group.operator_state === "unapproved") {
      items.push({ level: "warning", text: "group_unapproved", values: { name }, target });
    } else if (group.state === "offline")
      items.push({ level: "critical", text: "group_offline", values: { name }, target });
    else if (group.state === "read_only" && group.operator_state === "normal") {
      items.push({ level: "warning", text: "group_read_only", values: { name }, target });
    }
  }
  for (const node of nodes) {
    if (typeof node.reason === "string" && node.is_measured === false) {
      items.push({
        level: "warning",
        text: "node_unmeasured",
        values: { node: text(node.node_id), why: node.reason },
        target: groupOf(node),
      });
    }
    if (typeof node.damaged_ranges === "number" && node.damaged_ranges > 0) {
      items.push({
        level: "critical",
        text: "damage",
        values: { node: text(node.node_id), count: node.damaged_ranges },
        target: groupOf(node),
      });
    }
  }
  items.push(...clockItems(nodes), ...diskItems(nodes));
  for (const [severity, count] of Object.entries(overview.alerts_firing)) {
    if (count > 0) {
      const level = severity === "critical" ? "critical" : "warning";
      items.push({ level, text: `alerts_${severity}`, values: { count }, target: { to: "/alerts" } });
    }
  }
  for (const name of overview.tasks_late)
    items.push({ level: "warning", text: "task_late", values: { name }, target: { to: "/tasks" } });
  if (overview.unmeasured_reason) {
    items.push({
      level: "warning",
      text: "unmeasured",
      values: { why: overview.unmeasured_reason },
      target: { to: "/tasks" },
    });
  }
  return items.sort((a, b) => Number(a.level === "warning") - Number(b.level === "warning"));
}
