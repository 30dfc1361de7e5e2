import type { BrokerGroup, Overview } from "@/features/overview/queries";
import { textOf } from "@/format/values";
import type { Entry, LiveState } from "@/live/applyDelta";
import { isExplanation, type Explanation } from "@/ui/reasons";
import type { Target } from "@/ui/links/addresses";

/** Something an operator should look at; `text` is a key below `overview:attention.`, `values` its values. */
export interface Item {
  level: "critical" | "warning";
  text: string;
  values: Readonly<Record<string, string | number>>;
  /** The value `why` as a reason that can be translated. */
  why?: Explanation;
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
  const {
    disk_free_bytes: free,
    disk_total_bytes: total,
    clock_ahead_ms: ahead,
    clock_behind_ms: behind,
    damaged_ranges: damaged,
  } = node;
  const name = textOf(node.node_id);
  const group = groupOf(node);
  const share = typeof free === "number" && typeof total === "number" && total > 0 ? free / total : 1;
  return [
    typeof node.reason === "string" &&
      node.is_measured === false &&
      ({
        ...of("warning", "node_unmeasured", { node: name, why: node.reason }, group),
        ...(isExplanation(node.why) && { why: node.why }),
      } satisfies Item),
    typeof damaged === "number" && damaged > 0 && of("critical", "damage", { node: name, count: damaged }, group),
    typeof ahead === "number" &&
      ahead > 0 &&
      of("critical", "clock", { node: name, seconds: Math.round(ahead / 1_000) }, group),
    typeof behind === "number" &&
      behind > 0 &&
      of("critical", "clock_behind", { node: name, seconds: Math.round(behind / 1_000) }, group),
    share <= DISK_WARN &&
      of(
        share <= DISK_BAD ? "critical" : "warning",
        "disk",
        { node: name, free: `${Math.round(share * 100)} %` },
        group,
      ),
  ];
}

/** A group that rejects sends by itself: because too few members are in sync, as far as that is known. */
function rejecting(name: string, groups: readonly BrokerGroup[], target: Target): Item {
  const group = groups.find((one) => one.name === name);
  const minimum = group?.in_sync_min_in_force;
  if (!minimum || group.in_sync.length >= minimum) return of("warning", "group_read_only", { name }, target);
  const values = { name, in_sync: group.in_sync.length, members: group.members.length, minimum };
  return of("warning", "group_below_minimum", values, target);
}

/** Whether the live state has broker groups that reject sends though no operator wants it. */
export function hasRejecting(live: LiveState): boolean {
  return Object.values(live.broker_groups ?? {}).some(isRejecting);
}

function isRejecting({ state, operator_state: operator }: Entry): boolean {
  return state === "read_only" && operator === "normal";
}

/**
 * What needs attention beside the firing alerts, worst first: of the overview, of the live state of nodes, and of
 * broker groups as far as they are known. Pure.
 */
export function attention(overview: Overview, live: LiveState, brokerGroups: readonly BrokerGroup[] = []): Item[] {
  const groups = Object.entries(live.broker_groups ?? {}).map(([name, { state, operator_state: operator }]) => {
    const target: Target = { to: "/brokers/$name", params: { name } };
    if (operator === "unapproved") return of("warning", "group_unapproved", { name }, target);
    if (state === "offline") return of("critical", "group_offline", { name }, target);
    return isRejecting({ state, operator_state: operator }) && rejecting(name, brokerGroups, target);
  });
  const why = overview.unmeasured_reason;
  return [
    ...groups,
    ...Object.values(live.nodes ?? {}).flatMap(nodeItems),
    ...overview.jobs_late.map((name) => of("warning", "job_late", { name }, { to: "/jobs" })),
    Boolean(why) && of("warning", "unmeasured", { why: why ?? "" }, { to: "/jobs" }),
  ]
    .filter((item) => item !== false)
    .sort((a, b) => Number(a.level === "warning") - Number(b.level === "warning"));
}
