import { queryOptions } from "@tanstack/react-query";
import type { Change, Schema } from "@/api/client";
import { change, readWithTag, type Attempt } from "@/api/requests";

export type User = Schema<"UserRow">;
export type Role = Schema<"UserRole">;
export type UserValues = Omit<Schema<"PatchedUserChangeRequest">, "reason">;
export type MadeUser = Schema<"MadeUser">;

export const ROLES: readonly Role[] = ["viewer", "operator", "admin"];

/** Keys begin with `users`: a change of one refreshes all. */
export const usersKey = ["users"] as const;

export function userOptions(id: string) {
  return queryOptions({
    queryKey: [...usersKey, id],
    queryFn: readWithTag("/api/v1/users/{user_id}/", { path: { user_id: Number(id) } }),
  });
}

export function updateUser(id: string, body: UserValues, etag: string | null, attempt: Attempt): Promise<Change> {
  return change("patch", "/api/v1/users/{user_id}/", attempt, { path: { user_id: Number(id) }, etag, body });
}
