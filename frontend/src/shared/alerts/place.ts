import type { AlertKind } from "@/api/alerts";
import type { LiveState } from "@/live/applyDelta";
import type { Target } from "@/ui/links/addresses";

const OF_BROKER_GROUPS: ReadonlySet<AlertKind> = new Set([
  "group_state",
  "copies",
  "below_minimum",
  "no_candidate",
  "one_rack",
  "role_changes",
]);

const OF_OUTBOXES: ReadonlySet<AlertKind> = new Set(["outbox_age", "outbox_failed", "outbox_unreachable"]);

/**
 * The page of an alert's target: its consumer group, subject, broker group, registered database or background job. A
 * node is shown on the page of its broker group, which the live state of nodes knows; without it there is no page.
 */
export function placeOf(kind: AlertKind, target: string, live: LiveState): Target | null {
  if (OF_OUTBOXES.has(kind)) return { to: "/outbox", search: { search: target } };
  const slash = target.indexOf("/");
  if (slash > 0) {
    const params = { subject: target.slice(0, slash), group: target.slice(slash + 1) };
    return { to: kind === "dead_letters" ? "/dead-letters/$subject/$group" : "/groups/$subject/$group", params };
  }
  if (kind === "anomaly") return { to: "/subjects/$subject", params: { subject: target } };
  if (OF_BROKER_GROUPS.has(kind)) return { to: "/brokers/$name", params: { name: target } };
  if (kind === "job_late" || live.jobs?.[target]) return { to: "/jobs" };
  const node = Object.values(live.nodes ?? {}).find(({ node_id }) => node_id === target);
  return typeof node?.broker_group === "string" ? { to: "/brokers/$name", params: { name: node.broker_group } } : null;
}

/** A glob that means this text and nothing else, however many of a glob's signs it has. */
export function literal(text: string): string {
  return text.replace(/[*?[]/g, "[$&]");
}
