import { queryOptions, useQueryClient } from "@tanstack/react-query";
import { api, must, mustWithTag, type Change, type Schema } from "@/api/client";
import type { SubjectChange } from "@/features/subjects/values";
import type { Attempt } from "@/api/requests";
import type { Load } from "@/ui/table/types";

export type Subject = Schema<"SubjectRow">;
export type Route = Schema<"Route">;
export type Phase = Route["phases"][string];

/** Keys begin with `subjects`: a change of one refreshes all lists. */
export const subjectsKey = ["subjects"] as const;
const PAGE_MAX = 500;
const ALERTS_SHOWN = 50;

export const loadSubjects: Load<Subject> = (query, signal) =>
  must(api.GET("/api/v1/subjects/", { params: { query }, signal }));

export function subjectOptions(subject: string) {
  return queryOptions({
    queryKey: [...subjectsKey, "one", subject],
    queryFn: ({ signal }) =>
      mustWithTag(api.GET("/api/v1/subjects/{subject}/", { params: { path: { subject } }, signal })),
    refetchInterval: 15_000,
  });
}

/** Open alerts about a subject's consumer groups: their targets are `subject/group`. */
export function alertsOptions(subject: string) {
  return queryOptions({
    queryKey: [...subjectsKey, "alerts", subject],
    queryFn: async ({ signal }) => {
      const query = { is_open: true, target_prefix: `${subject}/`, limit: ALERTS_SHOWN };
      const { results } = await must(api.GET("/api/v1/alerts/", { params: { query }, signal }));
      return results;
    },
    refetchInterval: 10_000,
  });
}

function asked({ dryRun }: Attempt): { dry_run?: boolean } {
  return dryRun ? { dry_run: true } : {};
}

function ifMatch(etag: string | null): { "If-Match"?: string } {
  return etag ? { "If-Match": etag } : {};
}

export function createSubject(name: string, values: SubjectChange, attempt: Attempt): Promise<Change> {
  return must(
    api.POST("/api/v1/subjects/", {
      params: { query: asked(attempt) },
      body: { name, ...values, reason: attempt.reason },
    }),
  );
}

export function changeSubject(
  subject: string,
  values: SubjectChange,
  etag: string | null,
  attempt: Attempt,
): Promise<Change> {
  return must(
    api.PATCH("/api/v1/subjects/{subject}/", {
      params: { path: { subject }, query: asked(attempt), header: ifMatch(etag) },
      body: { ...values, reason: attempt.reason },
    }),
  );
}

/** Archive a subject, or take that back. */
export function setArchived(subject: string, to: boolean, etag: string | null, attempt: Attempt): Promise<Change> {
  const request = {
    params: { path: { subject }, query: asked(attempt), header: ifMatch(etag) },
    body: { reason: attempt.reason },
  };
  return must(
    to
      ? api.POST("/api/v1/subjects/{subject}/archive/", request)
      : api.POST("/api/v1/subjects/{subject}/restore/", request),
  );
}

/** Delete an archived, empty subject. */
export function deleteSubject(subject: string, etag: string | null, attempt: Attempt): Promise<Change> {
  return must(
    api.DELETE("/api/v1/subjects/{subject}/", {
      params: { path: { subject }, query: asked(attempt), header: ifMatch(etag) },
      body: { reason: attempt.reason },
    }),
  );
}

export function placementOptions(subject: string) {
  return queryOptions({
    queryKey: [...subjectsKey, "placement", subject],
    queryFn: ({ signal }) =>
      mustWithTag(api.GET("/api/v1/subjects/{subject}/placement/", { params: { path: { subject } }, signal })),
    // A move takes a step every few seconds.
    refetchInterval: 3_000,
    retry: false,
  });
}

export function placeSubject(
  subject: string,
  brokerGroups: readonly string[],
  etag: string | null,
  attempt: Attempt,
): Promise<Change> {
  return must(
    api.PUT("/api/v1/subjects/{subject}/placement/", {
      params: { path: { subject }, query: asked(attempt), header: ifMatch(etag) },
      body: { broker_groups: [...brokerGroups], reason: attempt.reason },
    }),
  );
}

/** All broker groups: where a subject can be. */
export function brokerGroupsOptions() {
  return queryOptions({
    queryKey: ["broker-groups", "of-brokers"],
    queryFn: async ({ signal }) => {
      const query = { kind: "broker" as const, limit: PAGE_MAX };
      return (await must(api.GET("/api/v1/broker-groups/", { params: { query }, signal }))).results;
    },
    refetchInterval: 10_000,
  });
}

/** To be called after a change: every list and page of subjects is asked anew. */
export function useRefresh(): () => void {
  const client = useQueryClient();
  return () => void client.invalidateQueries({ queryKey: subjectsKey });
}
