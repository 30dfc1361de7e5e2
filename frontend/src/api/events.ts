import { queryOptions } from "@tanstack/react-query";
import type { Schema } from "@/api/client";
import { read } from "@/api/requests";

export type Event = Schema<"EventRow">;
export type EventKind = Event["kind"];
export type EventSeverity = Event["severity"];

/** What events concern: one thing, or everything. A subject's include those of its groups and broker groups. */
export type About = { subject: string; group?: string } | { broker_group: string } | Record<string, never>;

export interface EventFilters {
  about?: About;
  kind?: readonly EventKind[];
  severity?: readonly EventSeverity[];
  since?: string;
  until?: string;
}

/** Events are at most this old when a page shows them, and the time in which the server noticed them. */
const REFRESH_MS = 3_000;

function query({ about, kind, severity, since, until }: EventFilters, limit: number) {
  return { ...about, kind: [...(kind ?? [])], severity: [...(severity ?? [])], since, until, limit };
}

export const eventsKey = ["events"] as const;

/** The newest events, read again and again. */
export function eventsOptions(filters: EventFilters, limit: number) {
  return queryOptions({
    queryKey: [...eventsKey, "newest", filters, limit],
    queryFn: read("/api/v1/events/", { query: query(filters, limit) }),
    refetchInterval: REFRESH_MS,
  });
}
