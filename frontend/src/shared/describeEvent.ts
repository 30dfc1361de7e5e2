import type { Event } from "@/api/events";
import { textOf } from "@/format/values";
import type { Target } from "@/ui/links/addresses";

/**
 * What an event says: `key` below `events:sentence.`, its values, and the name of what it concerns, which the sentence
 * has as `target`.
 */
export interface Described {
  key: string;
  values: Readonly<Record<string, string>>;
  name: string;
  target: Target | null;
}

function names(value: unknown): string {
  return Array.isArray(value) ? value.map(textOf).join(", ") : "";
}

/** Where an event leads. */
function targetOf({ kind, subject, group, broker_group: brokerGroup, action, target, values }: Event): Target | null {
  if (kind === "alert_fired" || kind === "alert_resolved")
    return { to: "/alerts", search: { alert: textOf(values.alert) } };
  if (kind === "job") return { to: "/jobs" };
  if (subject && group) return { to: "/groups/$subject/$group", params: { subject, group } };
  if (subject) return { to: "/subjects/$subject", params: { subject } };
  if (brokerGroup) return { to: "/brokers/$name", params: { name: brokerGroup } };
  switch (action?.split(".")[0]) {
    case "user":
      return { to: "/users", search: { search: target } };
    case "team":
      return { to: "/teams/$team", params: { team: target } };
    case "job":
      return { to: "/jobs" };
    case "alert_rule":
      return { to: "/alerts", search: { tab: "rules", search: target } };
    case "silence":
      return { to: "/alerts", search: { tab: "silences" } };
    case "outbox_database":
      return { to: "/outbox/$database", params: { database: target } };
    default:
      return null;
  }
}

/** Members that came, went, or both. */
function moved(kind: string, { joined, left }: Event["values"]): Pick<Described, "key" | "values"> {
  const values = { joined: names(joined), left: names(left) };
  if (values.joined && values.left) return { key: `${kind}_both`, values };
  if (values.joined) return { key: `${kind}_joined`, values };
  return values.left ? { key: `${kind}_left`, values } : { key: `${kind}_changed`, values };
}

function sentence({ kind, action, node, values }: Event): Pick<Described, "key" | "values"> {
  switch (kind) {
    case "alert_fired":
    case "alert_resolved":
      return { key: kind, values: { rule: textOf(values.rule) } };
    case "failover":
    case "switch_over": {
      const [master, previous] = [textOf(values.master), textOf(values.previous)];
      return { key: master && previous ? kind : `${kind}_same`, values: { master, previous } };
    }
    case "in_sync":
    case "members":
      return moved(kind, values);
    case "state":
      return { key: `${node ? "node" : "group"}_${textOf(values.after) || "offline"}`, values: {} };
    case "reset":
      return { key: action === "consumer_group.reset_failed" ? "reset_failed" : "reset", values: {} };
    case "job":
      return { key: values.after === "late" ? "job_late" : "job_on_time", values: {} };
    default:
      return { key: kind, values: {} };
  }
}

/** What an event says, as keys and values. Pure. */
export function describeEvent(event: Event): Described {
  return { ...sentence(event), name: event.target, target: targetOf(event) };
}
