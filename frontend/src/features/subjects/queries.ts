import { queryOptions } from "@tanstack/react-query";
import type { Change, Schema } from "@/api/client";
import { change, read, readWithTag, type Attempt } from "@/api/requests";
import type { SubjectChange } from "@/features/subjects/values";

export type Subject = Schema<"SubjectRow">;
export type Route = Schema<"Route">;
export type Phase = Route["phases"][string];

/** Keys begin with `subjects`: a change of one refreshes all lists. */
export const subjectsKey = ["subjects"] as const;
const PAGE_MAX = 500;

export function subjectOptions(subject: string) {
  return queryOptions({
    queryKey: [...subjectsKey, "one", subject],
    queryFn: readWithTag("/api/v1/subjects/{subject}/", { path: { subject } }),
    refetchInterval: 15_000,
  });
}

type Etag = string | null;

export function changeSubject(subject: string, body: SubjectChange, etag: Etag, attempt: Attempt): Promise<Change> {
  return change("patch", "/api/v1/subjects/{subject}/", attempt, { path: { subject }, etag, body });
}

/** Archive a subject, or take that back. */
export function setArchived(subject: string, to: boolean, etag: Etag, attempt: Attempt): Promise<Change> {
  const which = to ? "/api/v1/subjects/{subject}/archive/" : "/api/v1/subjects/{subject}/restore/";
  return change("post", which, attempt, { path: { subject }, etag });
}

export function placementOptions(subject: string) {
  return queryOptions({
    queryKey: [...subjectsKey, "placement", subject],
    queryFn: readWithTag("/api/v1/subjects/{subject}/placement/", { path: { subject } }),
    // A move takes a step every few seconds.
    refetchInterval: 3_000,
    retry: false,
  });
}

/** All broker groups: where a subject can be. */
export function brokerGroupsOptions() {
  return queryOptions({
    queryKey: ["broker-groups", "of-brokers"],
    queryFn: read("/api/v1/broker-groups/", { query: { kind: "broker", limit: PAGE_MAX } }),
    refetchInterval: 10_000,
  });
}
