import { isWellFormed, limitsOf } from "@/api/limits";
import type { Database, DatabaseChange, NewDatabase } from "@/features/outbox/queries";

/** A database as its form holds it. The password is never shown: it begins empty, and empty means: unchanged. */
export interface DatabaseDraft {
  name: string;
  kind: Database["kind"];
  host: string;
  port: number | "";
  database: string;
  user: string;
  password: string;
  /** Instead of a new one: none any more. */
  dropsPassword: boolean;
  table: string;
  tls: Database["tls"];
  owner: string;
  isEnabled: boolean;
  rowsPerSecondMax: number | "";
  ageHoursMax: number | "";
  /** Empty: no markers are deleted. */
  markerTable: string;
  markerDays: number | "";
}

export const PORTS: Readonly<Record<Database["kind"], number>> = { postgresql: 5432, mysql: 3306, sqlite: 0 };
const DEFAULT_TABLE = "qmq_msg_queue";
export const DEFAULT_MARKER_DAYS = 7;
const HOST_LIMIT = limitsOf("NewOutboxDatabaseRequest", "host");

export const NEW_DATABASE: DatabaseDraft = {
  name: "",
  kind: "postgresql",
  host: "",
  port: "",
  database: "",
  user: "",
  password: "",
  dropsPassword: false,
  table: DEFAULT_TABLE,
  tls: "off",
  owner: "",
  isEnabled: true,
  rowsPerSecondMax: "",
  ageHoursMax: "",
  markerTable: "",
  markerDays: "",
};

export function draftOf(row: Database): DatabaseDraft {
  return {
    ...NEW_DATABASE,
    name: row.name,
    kind: row.kind,
    host: row.host ?? "",
    port: row.port ?? "",
    database: row.database ?? "",
    user: row.user ?? "",
    table: row.table,
    tls: row.tls,
    owner: row.owner ?? "",
    isEnabled: row.is_enabled,
    rowsPerSecondMax: row.rows_per_second_max ?? "",
    ageHoursMax: row.age_hours_max ?? "",
    markerTable: row.marker_table,
    markerDays: row.marker_days,
  };
}

/**
 * Whether the password has to be entered again: otherwise a change of the address could send it to another server.
 * False for a database that has none, or is new.
 */
export function needsPassword(draft: DatabaseDraft, row: Database | null): boolean {
  if (!row?.has_password || draft.dropsPassword) return false;
  return draft.host.trim() !== (row.host ?? "") || portOf(draft) !== row.port || draft.tls !== row.tls;
}

const TESTED = ["host", "database", "user", "table", "markerTable", "tls"] as const;

/** Whether saving tests the connection: that of a new or newly enabled database, and one that changes. */
export function isTested(draft: DatabaseDraft, row: Database | null): boolean {
  if (!draft.isEnabled || !row?.is_enabled) return draft.isEnabled;
  const before = draftOf(row);
  const isOther = TESTED.some((name) => draft[name].trim() !== before[name]) || portOf(draft) !== row.port;
  return isOther || draft.password !== "" || draft.dropsPassword;
}

/** Whether it can be tried; the API says what is wrong with a value. */
export function isComplete(draft: DatabaseDraft, row: Database | null): boolean {
  if (!draft.name.trim() || !draft.database.trim() || !draft.table.trim()) return false;
  if (draft.kind === "sqlite") return true;
  if (!draft.host.trim() || !isWellFormed(HOST_LIMIT, draft.host)) return false;
  return !needsPassword(draft, row) || draft.password !== "";
}

function portOf(draft: DatabaseDraft): number {
  return draft.port === "" ? PORTS[draft.kind] : draft.port;
}

function settings(draft: DatabaseDraft) {
  return {
    name: draft.name.trim(),
    database: draft.database.trim(),
    table: draft.table.trim(),
    owner: draft.owner || null,
    is_enabled: draft.isEnabled,
    rows_per_second_max: draft.rowsPerSecondMax === "" ? null : draft.rowsPerSecondMax,
    age_hours_max: draft.ageHoursMax === "" ? null : draft.ageHoursMax,
    marker_table: draft.markerTable.trim(),
    marker_days: draft.markerDays === "" ? DEFAULT_MARKER_DAYS : draft.markerDays,
    ...(draft.kind !== "sqlite" && {
      host: draft.host.trim(),
      port: portOf(draft),
      user: draft.user.trim(),
      tls: draft.tls,
      ...(draft.dropsPassword ? { password: null } : draft.password ? { password: draft.password } : {}),
    }),
  };
}

export function toDatabase(draft: DatabaseDraft): NewDatabase {
  return { kind: draft.kind, ...settings(draft) };
}

/** What is to change: the password only when it was typed, or dropped. */
export function toChange(draft: DatabaseDraft): DatabaseChange {
  return settings(draft);
}
