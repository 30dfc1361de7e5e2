import { queryOptions } from "@tanstack/react-query";
import { api, must, type Change, type Schema } from "@/api/client";
import { limit } from "@/api/limits";
import { change, etagOf, read, readWithTag, type Attempt } from "@/api/requests";
import type { ListPage, ListQuery } from "@/ui/table/types";

export type Database = Schema<"OutboxDatabaseRow">;
export type DatabaseChange = Schema<"PatchedOutboxDatabaseChangeRequest">;
export type NewDatabase = Schema<"NewOutboxDatabaseRequest">;
export type OutboxRow = Schema<"OutboxRowShown">;
export type Status = OutboxRow["status"];
export type RowsChanged = Schema<"OutboxRowsChanged">;
export type TestResult = Schema<"OutboxDatabaseTest">;

export const KINDS = ["postgresql", "mysql", "sqlite"] as const satisfies readonly Database["kind"][];
export const TLS = ["off", "encrypt", "verify"] as const satisfies readonly Database["tls"][];
export const STATUSES = ["refused", "invalid", "failed", "pending"] as const satisfies readonly Status[];

/** The statuses of rows that a view of the page shows: those that an operator decides about, those the relay sends. */
export const VIEWS = {
  all: STATUSES,
  failed: ["refused", "invalid"],
  unsent: ["pending", "failed"],
} as const satisfies Record<string, readonly Status[]>;
export type View = keyof typeof VIEWS;

/** Databases are measured every 15 s: a new number is on screen soon after. */
export const REFRESH_MS = 5_000;
/** Rows that one request can name. */
export const SELECTED_MAX = limit("OutboxRowSelectionRequest", "ids", "maxItems");

/** All keys begin with `outbox`: a change of rows changes the numbers too. */
export const outboxKey = ["outbox"] as const;

export function databaseOptions(database: string) {
  return queryOptions({
    queryKey: [...outboxKey, "database", database],
    queryFn: readWithTag("/api/v1/outbox/databases/{database}/", { path: { database } }),
    refetchInterval: REFRESH_MS,
  });
}

/** A page of rows, read from the database itself. */
export function loadRows(
  database: string,
  view: View,
  query: ListQuery,
  signal: AbortSignal,
): Promise<ListPage<OutboxRow>> {
  const { cursor } = query;
  return must(
    api.GET("/api/v1/outbox/databases/{database}/rows/", {
      params: { path: { database }, query: { limit: Number(query.limit), status: [...VIEWS[view]], cursor } },
      signal,
    }),
  );
}

export function rowOptions(database: string, row: string) {
  return queryOptions({
    queryKey: [...outboxKey, "row", database, row],
    // An ID may be past 2^53: it stays the text it came as.
    queryFn: read("/api/v1/outbox/databases/{database}/rows/{row_id}/", {
      path: { database, row_id: row as unknown as number },
    }),
    // Each look is noted in the audit log.
    refetchOnWindowFocus: false,
  });
}

type Stored = Pick<Database, "id" | "version">;

export function changeDatabase(database: Stored, body: DatabaseChange, attempt: Attempt): Promise<Change> {
  const path = { database: database.id };
  return change("patch", "/api/v1/outbox/databases/{database}/", attempt, { path, etag: etagOf(database), body });
}

export type Action = "resend" | "discard";
/** Rows by their IDs, or all with a status. */
export type Chosen = { ids: readonly string[] } | { status: Status };

export function changeRows(
  database: Stored,
  action: Action,
  chosen: Chosen & { expected?: number },
  attempt: Attempt,
  signal?: AbortSignal,
): Promise<RowsChanged> {
  const parts = {
    path: { database: database.id },
    etag: etagOf(database),
    body: "ids" in chosen ? { ids: [...chosen.ids] } : chosen,
    signal,
  };
  return action === "resend"
    ? change("post", "/api/v1/outbox/databases/{database}/resend/", attempt, parts)
    : change("post", "/api/v1/outbox/databases/{database}/discard/", attempt, parts);
}

/** A pending row that never failed belongs to its program and the relay: nothing is decided about it. */
export function canChange({ status, failed_attempts }: OutboxRow): boolean {
  return status !== "pending" || failed_attempts > 0;
}
