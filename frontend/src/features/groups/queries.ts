import { queryOptions, useQueryClient } from "@tanstack/react-query";
import { api, must, mustWithTag, type Change, type Schema } from "@/api/client";
import type { Attempt } from "@/api/requests";
import type { Load } from "@/ui/table/types";

export type GroupLag = Schema<"GroupLag">;
export type Detail = Schema<"GroupDetail">;
export type Member = Schema<"GroupMember">;
export type Place = Schema<"OnBrokerGroup">;
export type ResetDone = Schema<"ResetDone">;
export type ResetRequest = Schema<"ResetRequest">;

/** Keys begin with `groups`: a change of one refreshes all lists. */
export const groupsKey = ["groups"] as const;
const ALERTS_SHOWN = 20;

export const loadGroups: Load<GroupLag> = (query, signal) =>
  must(api.GET("/api/v1/lag/", { params: { query: query }, signal }));

/** The groups of one subject. */
export function loadGroupsOf(subject: string): Load<GroupLag> {
  return (query, signal) => loadGroups({ ...query, subject }, signal);
}

/** Which group; a name alone says little, several subjects may have one of that name. */
export interface GroupName {
  subject: string;
  group: string;
}

/** Positions and members, asked of the nodes. */
export function detailOptions(path: GroupName) {
  return queryOptions({
    queryKey: [...groupsKey, "one", path],
    queryFn: ({ signal }) =>
      mustWithTag(api.GET("/api/v1/consumer-groups/{subject}/{group}/", { params: { path }, signal })),
    refetchInterval: 3_000,
  });
}

/** Dead letters of the group; null when it has none. */
export function deadLettersOptions({ subject, group }: GroupName) {
  return queryOptions({
    queryKey: [...groupsKey, "dead-letters", { subject, group }],
    queryFn: async ({ signal }) => {
      const query = { subject, group };
      const { results, unreachable } = await must(api.GET("/api/v1/dead-letters/", { params: { query }, signal }));
      const reason = Object.entries(unreachable).map(([name, why]) => `${name}: ${why}`);
      return { open: results[0]?.open ?? 0, reason: reason.join("; ") || null };
    },
    refetchInterval: 15_000,
  });
}

/** Open alerts about the group: their target is `subject/group`. */
export function alertsOptions({ subject, group }: GroupName) {
  const target = `${subject}/${group}`;
  return queryOptions({
    queryKey: [...groupsKey, "alerts", target],
    queryFn: async ({ signal }) => {
      const query = { is_open: true, target, limit: ALERTS_SHOWN };
      const { results } = await must(api.GET("/api/v1/alerts/", { params: { query }, signal }));
      return results;
    },
    refetchInterval: 10_000,
  });
}

/** The version that a dialog was opened on; a change of somebody else since is refused. */
function asked(path: GroupName, etag: string | null, { dryRun }: Attempt) {
  return {
    path,
    query: dryRun ? { dry_run: true } : {},
    header: etag ? { "If-Match": etag } : {},
  };
}

/** Pause or resume the group, or one of its consumers. */
export function setPaused(
  path: GroupName,
  to: boolean,
  consumerId: string | undefined,
  etag: string | null,
  attempt: Attempt,
): Promise<Change> {
  const request = {
    params: asked(path, etag, attempt),
    body: { reason: attempt.reason, ...(consumerId ? { consumer_id: consumerId } : {}) },
  };
  return must(
    to
      ? api.POST("/api/v1/consumer-groups/{subject}/{group}/pause/", request)
      : api.POST("/api/v1/consumer-groups/{subject}/{group}/resume/", request),
  );
}

export function resetProgress(
  path: GroupName,
  to: ResetRequest,
  etag: string | null,
  attempt: Attempt,
): Promise<ResetDone> {
  return must(
    api.POST("/api/v1/consumer-groups/{subject}/{group}/reset/", {
      params: asked(path, etag, attempt),
      body: { ...to, reason: attempt.reason },
    }),
  );
}

export function changeGroup(
  path: GroupName,
  values: { description: string; tags: string[] },
  etag: string | null,
  attempt: Attempt,
): Promise<Change> {
  return must(
    api.PATCH("/api/v1/consumer-groups/{subject}/{group}/", {
      params: asked(path, etag, attempt),
      body: { ...values, reason: attempt.reason },
    }),
  );
}

/** Forget the group; `force`: also while somebody reads or messages wait. */
export function forgetGroup(path: GroupName, force: boolean, etag: string | null, attempt: Attempt): Promise<Change> {
  return must(
    api.DELETE("/api/v1/consumer-groups/{subject}/{group}/", {
      params: asked(path, etag, attempt),
      body: { force, reason: attempt.reason },
    }),
  );
}

/** To be called after a change: every list and page of groups is asked anew. */
export function useRefresh(): () => void {
  const client = useQueryClient();
  return () => void client.invalidateQueries({ queryKey: groupsKey });
}
