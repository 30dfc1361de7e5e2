import { queryOptions, useQuery, useSuspenseQuery } from "@tanstack/react-query";
import type { Schema } from "@/api/client";
import { read } from "@/api/requests";

export type Me = Schema<"Me">;

export function meOptions() {
  return queryOptions({
    queryKey: ["me"],
    queryFn: read("/api/v1/me/"),
    staleTime: 60_000,
  });
}

/** Who is signed in. Pages inside the layout only: it has waited for the answer. */
export function useMe(): Me {
  return useSuspenseQuery(meOptions()).data;
}

/** The rights of the API's table, console/accounts/roles.py. */
export type Right =
  | "read"
  | "read_messages"
  | "send"
  | "change_subjects"
  | "change_groups"
  | "change_delayed"
  | "change_alerts"
  | "change_cluster"
  | "change_masking"
  | "read_audit"
  | "change_accounts"
  | "own_account";

const OF_A_SUBJECT: ReadonlySet<Right> = new Set([
  "read_messages",
  "send",
  "change_subjects",
  "change_groups",
  "change_delayed",
]);

/** Whether a role's rights cover what a team owns (`owner`; null: no team). The API decides; this hides buttons. */
export function may(me: Pick<Me, "rights" | "role" | "teams">, right: Right, owner?: string | null): boolean {
  if (!me.rights.includes(right)) return false;
  if (me.role === "admin" || !OF_A_SUBJECT.has(right) || !owner) return true;
  return me.teams.includes(owner);
}

/** `const may = useMay(); may("change_groups", row.owner)`. */
export function useMay(): (right: Right, owner?: string | null) => boolean {
  const { data } = useQuery(meOptions());
  return (right, owner) => data !== undefined && may(data, right, owner);
}
