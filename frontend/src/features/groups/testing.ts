import { vi } from "vitest";
import type { Detail, GroupLag } from "@/features/groups/queries";

/** What tests of this feature share: rows as the API answers them, and a live feed that a test speaks for. */

export const row = (group: string, values: Partial<GroupLag> = {}): GroupLag => ({
  subject: "orders",
  group,
  at: null,
  missing: null,
  at_least: null,
  last: null,
  owner: "shop",
  backlog: 30,
  in_flight: 10,
  lag: 40,
  time_lag_seconds: 65,
  pull_rate: 2,
  ack_rate: 2,
  drain_seconds: 90,
  is_draining: true,
  not_draining: null,
  consumers_online: 1,
  is_paused: false,
  retry_lag: 0,
  withheld: 0,
  state: "draining",
  reason: null,
  ...values,
});

export const detail = (values: Partial<Detail> = {}): Detail => ({
  subject: "orders",
  name: "billing",
  owner: "shop",
  description: "",
  tags: [],
  is_paused: false,
  paused_consumers: [],
  pause_reason: "",
  may_change: true,
  version: "3",
  first_seen_at: "2026-11-21T10:00:00Z",
  updated_at: "2026-11-21T10:00:00Z",
  lag: 40,
  time_lag_seconds: 65,
  unknown_reason: null,
  progress: [
    {
      broker_group: "g1",
      reason: null,
      begin_sequence: "0",
      next_sequence: "60",
      end_sequence: "100",
      backlog: 40,
      in_flight: 0,
      lag: 40,
      time_lag_seconds: 65,
      pull_rate: 2,
      ack_rate: 2,
    },
  ],
  members: [],
  members_total: 0,
  ...values,
});

/** Feeds that were opened, each with a way to say something on it. */
export function fakeFeeds(): { path: string; say: (message: object) => void }[] {
  const opened: { path: string; say: (message: object) => void }[] = [];
  vi.stubGlobal(
    "WebSocket",
    class {
      onmessage: ((event: { data: string }) => void) | null = null;
      constructor(url: string) {
        const { pathname, search } = new URL(url);
        opened.push({
          path: pathname + search,
          say: (message) => this.onmessage?.({ data: JSON.stringify(message) }),
        });
      }
      close() {
        return;
      }
    },
  );
  return opened;
}

/** A feed's first message. */
export const snapshot = (state: object) => ({
  type: "snapshot",
  stream: "s",
  version: 1,
  at: "2026-11-21T10:00:00Z",
  state,
});
