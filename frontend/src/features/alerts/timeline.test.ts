import { expect, test } from "vitest";
import type { AlertDetail } from "@/features/alerts/queries";
import { timeline } from "@/features/alerts/timeline";

const at = (minute: number) => `2026-11-21T10:${String(minute).padStart(2, "0")}:00Z`;
const alert = {
  since: at(0),
  fired_at: at(5),
  acknowledged_at: at(7),
  acknowledgement: "on it",
  resolved_at: at(20),
  notifications: [
    { channel: "pager", event: "firing", state: "delivered", attempts: 1, created_at: at(5), delivered_at: at(6) },
    { channel: "mail", event: "firing", state: "given_up", attempts: 10, last_error: "refused", created_at: at(5) },
    { channel: "pager", event: "resolved", state: "waiting", attempts: 0, created_at: at(20), next_at: at(21) },
  ].map((row) => ({ next_at: null, last_error: null, delivered_at: null, ...row })),
} as unknown as AlertDetail;

test("what happened comes in its order, a cause before what was notified of it", () => {
  expect(timeline(alert).map(({ kind, channel }) => [kind, channel ?? ""])).toEqual([
    ["began", ""],
    ["fired", ""],
    ["given_up", "mail"],
    ["notified", "pager"],
    ["acknowledged", ""],
    ["ended", ""],
    ["waiting", "pager"],
  ]);
});

test("a pending alert only began", () => {
  const pending = { ...alert, fired_at: null, acknowledged_at: null, resolved_at: null, notifications: [] };
  expect(timeline(pending)).toEqual([{ at: at(0), kind: "began" }]);
});
