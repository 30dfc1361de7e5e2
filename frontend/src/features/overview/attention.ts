import type { Overview } from "@/features/overview/queries";
import { textOf } from "@/format/values";
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

function groupOf(node: Entry): Target {
  return { to: "/brokers/$name", params: { name: textOf(node.broker_group) } };
}

function of(level: Item["level"], text: string, values: Item["values"], target: Target): Item {
  return { level, text, values, target };
}

function nodeItems(node: Entry): (Item | false)[] {
  const { disk_free_bytes: free, disk_total_bytes: total, clock_ahead_ms: ahead, damaged_ranges: damaged } = node;
  const name = textOf(node.node_id);
  const group = groupOf(node);
  const share = typeof free === "number" && typeof total === "number" && total > 0 ? free / total : 1;
  return [
    typeof node.reason === "string" &&
      node.is_measured === false &&
      of("warning", "node_unmeasured", { node: name, why: node.reason }, group),
    typeof damaged === "number" && damaged > 0 && of("critical", "damage", { node: name, count: damaged }, group),
    typeof ahead === "number" &&
      ahead > 0 &&
      of("critical", "clock", { node: name, seconds: Math.round(ahead / 1_000) }, group),
    share <= DISK_WARN &&
      of(
        share <= DISK_BAD ? "critical" : "warning",
        "disk",
        { node: name, free: `${Math.round(share * 100)} %` },
        group,
      ),
  ];
}

/** What needs attention, worst first, of the overview and of the live state of nodes. Pure. */
export function attention(overview: Overview, live: LiveState): Item[] {
  const groups = Object.entries(live.broker_groups ?? {}).map(([name, { state, operator_state: operator }]) => {
    const target: Target = { to: "/brokers/$name", params: { name } };
    if (operator === "unapproved") return of("warning", "group_unapproved", { name }, target);
    if (state === "offline") return of("critical", "group_offline", { name }, target);
    return state === "read_only" && operator === "normal" && of("warning", "group_read_only", { name }, target);
  });
  const alerts = Object.entries(overview.alerts_firing).map(
    ([severity, count]) =>
      count > 0 &&
      of(severity === "critical" ? "critical" : "warning", `alerts_${severity}`, { count }, { to: "/alerts" }),
  );
  const why = overview.unmeasured_reason;
  return [
    ...groups,
    ...Object.values(live.nodes ?? {}).flatMap(nodeItems),
    ...alerts,
    ...overview.tasks_late.map((name) => of("warning", "task_late", { name }, { to: "/tasks" })),
    Boolean(why) && of("warning", "unmeasured", { why: why ?? "" }, { to: "/tasks" }),
  ]
    .filter((item) => item !== false)
    .sort((a, b) => Number(a.level === "warning") - Number(b.level === "warning"));
}
