import type { Database, OutboxRow } from "@/features/outbox/queries";

/** A registered database that is measured, and whose rows a relay of this system sends. */
export function database(more: Partial<Database> = {}): Database {
  return {
    id: "7",
    name: "shop",
    kind: "postgresql",
    host: "db.example",
    port: 5432,
    database: "shop",
    user: "relay",
    has_password: true,
    table: "qmq_msg_queue",
    tls: "off",
    owner: null,
    is_enabled: true,
    rows_per_second_max: null,
    age_hours_max: null,
    marker_table: "",
    marker_days: 7,
    unknown: null,
    measured_at: "2026-11-21T10:00:00Z",
    pending: 12,
    is_pending_exact: true,
    oldest_seconds: 754,
    failed: 2,
    is_failed_exact: true,
    leader: "console vm:17",
    rows_per_second: 3.5,
    error_code: null,
    error: null,
    error_since: null,
    marker_cleanup_at: null,
    marker_error_code: null,
    marker_error: null,
    may_resend: true,
    may_discard: true,
    version: "4",
    created_at: "2026-11-20T10:00:00Z",
    updated_at: "2026-11-20T10:00:00Z",
    ...more,
  };
}

/** The same while nothing is known of it. */
export function unmeasured(more: Partial<Database>): Database {
  const unknown = {
    pending: null,
    is_pending_exact: null,
    oldest_seconds: null,
    failed: null,
    is_failed_exact: null,
    leader: null,
    rows_per_second: null,
  };
  return database({ ...unknown, ...more });
}

/** A row that a broker refused. */
export function row(more: Partial<OutboxRow> = {}): OutboxRow {
  return {
    id: "41",
    status: "refused",
    failed_attempts: 3,
    created_at: "2026-11-21T09:00:00Z",
    due_at: null,
    size: 240,
    message_id: "m-41",
    subject: "order.created",
    tags: [],
    deliver_at: null,
    properties: { data: '{"order": 41}' },
    last_error: "delay.too_far",
    problem: null,
    content: null,
    masked: false,
    masked_values: [],
    decoding: null,
    withheld: null,
    ...more,
  };
}
