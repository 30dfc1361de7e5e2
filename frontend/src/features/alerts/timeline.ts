import type { AlertDetail } from "@/features/alerts/queries";

/** Something that happened in an alert's life; `kind` is a key below `alerts:timeline.`. */
export interface Step {
  at: string;
  kind: "began" | "fired" | "acknowledged" | "notified" | "given_up" | "waiting" | "ended";
  /** Of a notification: the channel, and what it reports. */
  channel?: string;
  event?: "firing" | "resolved";
  /** Why, or what a user wrote. */
  text?: string | null;
  attempts?: number;
  /** Of a notification that waits: when it is tried next. */
  nextAt?: string | null;
}

/** An alert's life in the order it happened. Of equal instants the cause comes before what was notified of it. */
export function timeline(alert: AlertDetail): Step[] {
  const steps: Step[] = [{ at: alert.since, kind: "began" }];
  if (alert.fired_at) steps.push({ at: alert.fired_at, kind: "fired" });
  if (alert.acknowledged_at) {
    steps.push({ at: alert.acknowledged_at, kind: "acknowledged", text: alert.acknowledgement });
  }
  if (alert.resolved_at) steps.push({ at: alert.resolved_at, kind: "ended" });
  for (const notification of alert.notifications) {
    steps.push({
      at: notification.delivered_at ?? notification.created_at,
      kind:
        notification.state === "delivered" ? "notified" : notification.state === "given_up" ? "given_up" : "waiting",
      channel: notification.channel,
      event: notification.event,
      text: notification.state === "delivered" ? null : notification.last_error,
      attempts: notification.attempts,
      nextAt: notification.next_at,
    });
  }
  return steps.sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
}
