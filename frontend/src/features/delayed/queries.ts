import { queryOptions } from "@tanstack/react-query";
import { api, must, type Schema } from "@/api/client";
import { Problem } from "@/api/problem";
import type { Slice } from "@/features/delayed/slices";
import { change, read, type Attempt } from "@/api/requests";
import { oneProperty } from "@/shared/filters/filter";
import type { ListPage, ListQuery } from "@/ui/table/types";

export type Delayed = Schema<"DelayedRow">;
export type Changed = Schema<"DelayedChanged">;
export type BulkCancelled = Schema<"BulkCancelled">;

export const STATES = ["pending", "delivering", "refused", "delivered", "cancelled", "moved", "lost"] as const;
export type State = (typeof STATES)[number];
/** What can still be cancelled, moved or delivered: the delay node waits for its time, or for an operator. */
const OPEN: ReadonlySet<string> = new Set(["pending", "refused"]);

export function isOpen({ state }: Pick<Delayed, "state">): boolean {
  return OPEN.has(state);
}

/** Keys begin with `delayed`: a change refreshes calendar, lists and details. */
export const delayedKey = ["delayed"] as const;

const REFRESH_MS = 15_000;

export function calendarOptions(subject: string, from: string, to: string) {
  return queryOptions({
    queryKey: [...delayedKey, "calendar", subject, from, to],
    queryFn: ({ signal }) => askCalendar(subject, { from, to }, signal),
    refetchInterval: REFRESH_MS,
    placeholderData: (before) => before,
  });
}

export function askCalendar(subject: string, { from, to }: Slice, signal?: AbortSignal) {
  const query = { subject: subject || undefined, due_from: from ?? undefined, due_to: to ?? undefined };
  return must(api.GET("/api/v1/delayed-messages/calendar/", { params: { query }, signal }));
}

/** A page of the list. Without a subject it is not filtered: the page says so. */
export function loadDelayed(
  { subject, due_from, due_to, state, filter, limit, cursor }: ListQuery,
  signal: AbortSignal,
): Promise<ListPage<Delayed>> {
  const query = {
    subject: subject || undefined,
    due_from,
    due_to,
    cursor,
    limit: limit === undefined ? undefined : Number(limit),
    state: state ? [state as State] : undefined,
    ...(filter && subject && wordsOf(filter)),
  };
  return must(api.GET("/api/v1/delayed-messages/", { params: { query }, signal }));
}

/** A single property is matched: that is possible too where values are masked. */
function wordsOf(filter: string) {
  const property = oneProperty(filter);
  return property ? { match: [property] } : { filter };
}

/** All copies of a message id: a rescheduled one has two. */
export function messageOptions(messageId: string, subject: string) {
  return queryOptions({
    queryKey: [...delayedKey, "message", messageId, subject],
    queryFn: read("/api/v1/delayed-messages/message/", {
      query: { message_id: messageId, subject: subject || undefined },
    }),
    // Reading is limited and noted in the audit log: only when it was opened, or after a change.
    refetchOnWindowFocus: false,
  });
}

export type Operation = "cancel" | "deliver" | "reschedule";
/** A message as the list shows it: found fast, and distinguished from others with its id. */
export type Target = Pick<Delayed, "message_id" | "subject" | "due_at">;

/** Change one message; `to` is the new due time of a reschedule. */
export function changeMessage(
  operation: Operation,
  { message_id, subject, due_at }: Target,
  attempt: Attempt,
  to?: string,
  signal?: AbortSignal,
): Promise<Changed> {
  const body = { message_id, subject, was_due_at: due_at ?? undefined };
  if (operation !== "reschedule")
    return change("post", `/api/v1/delayed-messages/${operation}/`, attempt, { body, signal });
  return change("post", "/api/v1/delayed-messages/reschedule/", attempt, { body: { ...body, due_at: to }, signal });
}

export function isTooLate(error: unknown): error is Problem {
  return error instanceof Problem && error.code === "delayed.too_late";
}

/**
 * The same change, but that it came too late is reported in full: what became of the message, and that nothing was
 * changed.
 */
export async function orTooLate(change: Promise<Changed>): Promise<Changed> {
  try {
    return await change;
  } catch (error) {
    if (!isTooLate(error)) throw error;
    throw new Problem(
      error.status,
      error.code,
      error.title,
      `${error.detail} Nothing was changed. The current state is shown below.`,
      {},
      error.requestId,
    );
  }
}

export interface BulkQuery extends Slice {
  subject: string;
  match: Readonly<Record<string, string>>;
  /** How many match, as the preview counted them: with another number nothing is cancelled. */
  expected?: number;
}

export function bulkCancel(
  { subject, match, from, to, expected }: BulkQuery,
  attempt: Attempt,
  signal?: AbortSignal,
): Promise<BulkCancelled> {
  const all = Object.keys(match).length === 0 && !from && !to;
  const body = { subject, match, due_from: from, due_to: to, all, expected };
  return change("post", "/api/v1/delayed-messages/bulk-cancel/", attempt, { body, signal });
}
