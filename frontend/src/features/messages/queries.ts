import { queryOptions } from "@tanstack/react-query";
import { api, must, type Schema } from "@/api/client";
import { change, read, type Attempt } from "@/api/requests";
import { queryOf, type Criteria } from "@/features/messages/criteria";
import { placeOf } from "@/ui/message/place";
import type { ListPage, ListQuery } from "@/ui/table/types";

export type Message = Schema<"MessageRow">;
export type NewMessage = Schema<"NewMessageRequest">;
export type Receipt = Schema<"Receipt">;
export type Found = Schema<"MessageSlice">;
export type Resent = Schema<"Resent">;

export const messagesKey = (subject: string) => ["messages", subject] as const;

/**
 * A page of stored messages. A node searches a limited number of messages for an id at a time: pages without any are
 * skipped until something is found or there is nothing more.
 */
export async function loadMessages(subject: string, query: ListQuery, signal: AbortSignal): Promise<ListPage<Message>> {
  const missing: Record<string, string> = {};
  let cursor = query.cursor;
  for (;;) {
    const requested = { path: { subject }, query: { ...query, cursor } };
    const page = await read("/api/v1/subjects/{subject}/messages/", requested)({ signal });
    Object.assign(missing, page.unreachable);
    if (page.results.length > 0 || page.next === null) return { ...page, unreachable: missing };
    cursor = page.next;
  }
}

/** Messages that the overview of a subject shows. */
const NEWEST_SHOWN = 5;

/** The newest messages of a subject, read once: each reading of contents is in the audit log. */
export function newestOptions(subject: string) {
  return queryOptions({
    queryKey: [...messagesKey(subject), "newest"],
    queryFn: read("/api/v1/subjects/{subject}/messages/", { path: { subject }, query: { limit: NEWEST_SHOWN } }),
    refetchOnWindowFocus: false,
    refetchOnReconnect: false,
  });
}

export function messageOptions(subject: string, brokerGroup: string, sequence: string) {
  return queryOptions({
    queryKey: [...messagesKey(subject), "one", brokerGroup, sequence],
    queryFn: read("/api/v1/subjects/{subject}/messages/{broker_group}/{sequence}/", {
      // A sequence may be past 2^53: it stays the text it came as.
      path: { subject, broker_group: brokerGroup, sequence: sequence as unknown as number },
    }),
    // What is stored never changes.
    staleTime: Infinity,
  });
}

/** One bounded step of a search. */
export function searchStep(
  subject: string,
  criteria: Criteria,
  cursor: string | undefined,
  signal: AbortSignal,
): Promise<Found> {
  const query = { ...queryOf(criteria), limit: 200, cursor };
  return read("/api/v1/subjects/{subject}/messages/search/", { path: { subject }, query })({ signal });
}

export function sendMessage(subject: string, message: NewMessage, dryRun: boolean): Promise<Receipt> {
  return must(
    api.POST("/api/v1/subjects/{subject}/messages/", {
      params: { path: { subject }, query: { dry_run: dryRun } },
      body: message,
    }),
  );
}

/** Copies of stored messages, by their keys, to the subject itself or another one. */
export function resend(subject: string, keys: readonly string[], to: string, attempt: Attempt): Promise<Resent> {
  const messages = keys.map(placeOf).map(({ brokerGroup, sequence }) => ({ broker_group: brokerGroup, sequence }));
  return change("post", "/api/v1/subjects/{subject}/messages/resend/", attempt, {
    path: { subject },
    body: { messages, to_subject: to },
  });
}
