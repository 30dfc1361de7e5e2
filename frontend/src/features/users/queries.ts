import { queryOptions } from "@tanstack/react-query";
import { api, must, mustWithTag, queryOf, type Change, type Schema } from "@/api/client";
import type { Attempt } from "@/api/requests";
import type { Load } from "@/ui/table/types";

export type User = Schema<"UserRow">;
export type Role = Schema<"UserRole">;
export type UserValues = Omit<Schema<"PatchedUserChangeRequest">, "reason">;
export type MadeUser = Schema<"MadeUser">;

export const ROLES: readonly Role[] = ["viewer", "operator", "admin"];

/** Keys begin with `users`: a change of one refreshes all. */
export const usersKey = ["users"] as const;

export const loadUsers: Load<User> = (query, signal) =>
  must(api.GET("/api/v1/users/", { params: { query: queryOf<"/api/v1/users/">(query) }, signal }));

export function userOptions(id: string) {
  return queryOptions({
    queryKey: [...usersKey, id],
    queryFn: ({ signal }) =>
      mustWithTag(api.GET("/api/v1/users/{user_id}/", { params: { path: { user_id: Number(id) } }, signal })),
  });
}

export function createUser(username: string, values: UserValues, { dryRun, reason }: Attempt): Promise<MadeUser> {
  return must(
    api.POST("/api/v1/users/", { params: { query: { dry_run: dryRun } }, body: { username, ...values, reason } }),
  );
}

export function updateUser(
  id: string,
  values: UserValues,
  etag: string | null,
  { dryRun, reason }: Attempt,
): Promise<Change> {
  return must(
    api.PATCH("/api/v1/users/{user_id}/", {
      params: {
        path: { user_id: Number(id) },
        query: { dry_run: dryRun },
        header: etag ? { "If-Match": etag } : {},
      },
      body: { ...values, reason },
    }),
  );
}

export function endSessions(id: string, { dryRun, reason }: Attempt): Promise<Change> {
  return must(
    api.POST("/api/v1/users/{user_id}/end-sessions/", {
      params: { path: { user_id: Number(id) }, query: { dry_run: dryRun } },
      body: { reason },
    }),
  );
}

export function unlockUser(id: string, { dryRun, reason }: Attempt): Promise<Change> {
  return must(
    api.POST("/api/v1/users/{user_id}/unlock/", {
      params: { path: { user_id: Number(id) }, query: { dry_run: dryRun } },
      body: { reason },
    }),
  );
}
