import type { Schema } from "@/api/client";
import type { Target } from "@/ui/links/addresses";

/** Something that the API found by a text: `GET /api/v1/jump/`. */
export type Found = Schema<"PlaceRow">;

/** The page that shows it. */
export function addressOf(found: Found): Target {
  const { kind, name } = found;
  const subject = found.subject ?? "";
  const brokerGroup = found.broker_group ?? "";
  const sequence = found.sequence ?? "";
  switch (kind) {
    case "subject":
      return { to: "/subjects/$subject", params: { subject: name } };
    case "consumer_group":
      return { to: "/groups/$subject/$group", params: { subject, group: name } };
    case "broker_group":
      return { to: "/brokers/$name", params: { name } };
    case "node":
      return { to: "/brokers/$name", params: { name: brokerGroup } };
    case "team":
      return { to: "/teams/$team", params: { team: name } };
    case "alert_rule":
      return { to: "/alerts", search: { tab: "rules", search: name } };
    case "user":
      return { to: "/users", search: { search: name } };
    case "message":
      return { to: "/trace/$subject/$brokerGroup/$sequence", params: { subject, brokerGroup, sequence } };
    case "dead_letter":
      return {
        to: "/dead-letters/$subject/$group",
        params: { subject, group: found.text },
        search: { letter: `${brokerGroup}:${sequence}` },
      };
    case "delayed_message":
      return { to: "/delayed", search: { message: name, of: subject } };
  }
}

/** What distinguishes two of the same name. */
export function hintOf(found: Found): string {
  switch (found.kind) {
    case "consumer_group":
      return found.subject ?? "";
    case "node":
    case "message":
    case "delayed_message":
      return [found.subject, found.broker_group, found.text].filter(Boolean).join(" · ");
    case "dead_letter":
      return [found.subject, found.text].filter(Boolean).join(" · ");
    default:
      return found.text;
  }
}

/** Whether a text can stand for this name: each of its words is in it, whatever the case, as the API takes them. */
export function fits(name: string, text: string): boolean {
  const lowered = name.toLowerCase();
  const words = text.trim().toLowerCase().split(/\s+/);
  return words.every((word) => lowered.includes(word));
}
