import type { Overview } from "@/features/overview/queries";
import type { Entry, LiveState } from "@/live/applyDelta";

/** Something an operator should look at; `text` is a key below `overview:attention.`, `values` what it says. */
export interface Item {
  level: "bad" | "warn";
  text: string;
  values: Readonly<Record<string, string | number>>;
  to: string;
}

const DISK_WARN = 0.15;
const DISK_BAD = 0.05;

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function diskItems(nodes: readonly Entry[]): Item[] {
  return nodes.flatMap((node): Item[] => {
    const { disk_free_bytes: free, disk_total_bytes: total } = node;
    if (typeof free !== "number" || typeof total !== "number" || total <= 0) return [];
    const share = free / total;
    if (share > DISK_WARN) return [];
    return [
      {
        level: share <= DISK_BAD ? "bad" : "warn",
        text: "disk",
        values: { node: text(node.node_id), free: `${Math.round(share * 100)} %` },
        to: `/brokers/${encodeURIComponent(text(node.broker_group))}`,
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
        level: "bad",
        text: "clock",
        values: { node: text(node.node_id), seconds: Math.round(ahead / 1_000) },
        to: `/brokers/${encodeURIComponent(text(node.broker_group))}`,
      },
    ];
  });
}

/** What needs attention, worst first, of the overview and of the live state of nodes. Pure. */
export function attention(overview: Overview, live: LiveState): Item[] {
  const nodes = Object.values(live.nodes ?? {});
  const items: Item[] = [];
  for (const [name, group] of Object.entries(live.broker_groups ?? {})) {
    const to = `/brokers/${encodeURIComponent(name)}`;
    if (group.operator_state === "unapproved") {
      items.push({ level: "warn", text: "group_unapproved", values: { name }, to });
    } else if (group.state === "offline") items.push({ level: "bad", text: "group_offline", values: { name }, to });
    else if (group.state === "read_only" && group.operator_state === "normal") {
      items.push({ level: "warn", text: "group_read_only", values: { name }, to });
    }
  }
  for (const node of nodes) {
    if (typeof node.reason === "string" && node.is_measured === false) {
      const to = `/brokers/${encodeURIComponent(text(node.broker_group))}`;
      items.push({
        level: "warn",
        text: "node_unmeasured",
        values: { node: text(node.node_id), why: node.reason },
        to,
      });
    }
    if (typeof node.damaged_ranges === "number" && node.damaged_ranges > 0) {
      const to = `/brokers/${encodeURIComponent(text(node.broker_group))}`;
      items.push({
        level: "bad",
        text: "damage",
        values: { node: text(node.node_id), count: node.damaged_ranges },
        to,
      });
    }
  }
  items.push(...clockItems(nodes), ...diskItems(nodes));
  for (const [severity, count] of Object.entries(overview.alerts_firing)) {
    if (count > 0) {
      const level = severity === "critical" ? "bad" : "warn";
      items.push({ level, text: `alerts_${severity}`, values: { count }, to: "/alerts" });
    }
  }
  for (const name of overview.tasks_late)
    items.push({ level: "warn", text: "task_late", values: { name }, to: "/tasks" });
  if (overview.unmeasured_reason) {
    items.push({ level: "warn", text: "unmeasured", values: { why: overview.unmeasured_reason }, to: "/tasks" });
  }
  return items.sort((a, b) => Number(a.level === "warn") - Number(b.level === "warn"));
}
