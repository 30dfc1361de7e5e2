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
/** Those of one thing, whose page shows live what is wrong. */
const ABOUT_REFRESH_MS = 5_000;

function query({ about, kind, severity, since, until }: EventFilters, limit: number) {
  return { ...about, kind: [...(kind ?? [])], severity: [...(severity ?? [])], since, until, limit };
}

export const eventsKey = ["events"] as const;

/** The newest events, read again and again. */
export function eventsOptions(filters: EventFilters, limit: number) {
  return queryOptions({
    queryKey: [...eventsKey, "newest", filters, limit],
    queryFn: read("/api/v1/events/", { query: query(filters, limit) }),
    refetchInterval: filters.about ? ABOUT_REFRESH_MS : REFRESH_MS,
  });
}

/** Kinds of events that charts mark. */
export const MARKER_KINDS = [
  "alert_fired",
  "failover",
  "switch_over",
  "drain",
  "reset",
  "restart",
] as const satisfies readonly EventKind[];
const MARKERS_MAX = 500;
const MARKERS_REFRESH_MS = 10_000;
/** Of charts of more than a few hours. */
const MARKERS_SLOW_REFRESH_MS = 60_000;
const STEP_SECONDS = 300;
const HOUR_SECONDS = 3_600;

/**
 * Events that a chart marks, the newest MARKERS_MAX, between two times in seconds. A chart that moves with the time
 * keeps what it has until it is read again.
 */
export function markersOptions(about: About, first: number, last: number) {
  const iso = (seconds: number) => new Date(seconds * 1000).toISOString();
  const since = iso(first - STEP_SECONDS);
  const until = iso(last + STEP_SECONDS);
  const span = [Math.ceil((last - first) / STEP_SECONDS), Math.floor(last / HOUR_SECONDS)];
  return queryOptions({
    queryKey: [...eventsKey, "markers", about, span],
    queryFn: read("/api/v1/events/", { query: query({ about, kind: MARKER_KINDS, since, until }, MARKERS_MAX) }),
    refetchInterval: last - first > 2 * HOUR_SECONDS ? MARKERS_SLOW_REFRESH_MS : MARKERS_REFRESH_MS,
  });
}
