import { queryOptions } from "@tanstack/react-query";
import type { Schema } from "@/api/client";
import { limit } from "@/api/limits";
import { read, readWithTag } from "@/api/requests";

export type Team = Schema<"TeamRow">;
export type Member = Schema<"Member">;

/** Keys begin with `teams`: a change of one refreshes all, the pickers' names too. */
export const teamsKey = ["teams"] as const;
/** As many as the API takes at once. */
export const MEMBERS_MAX = limit("MembersRequest", "members", "maxItems");

export function teamOptions(team: string) {
  return queryOptions({
    queryKey: [...teamsKey, team],
    queryFn: readWithTag("/api/v1/teams/{team}/", { path: { team } }),
  });
}

/** All members' names, for changing them. */
export function memberNamesOptions(team: string) {
  return queryOptions({
    queryKey: [...teamsKey, team, "names"],
    queryFn: read("/api/v1/teams/{team}/members/", { path: { team }, query: { limit: MEMBERS_MAX } }),
    select: usernames,
  });
}

/** Users whose name or address has the text; a few are enough to choose from. */
export function usersLikeOptions(search: string) {
  return queryOptions({
    queryKey: ["users", "like", search],
    queryFn: read("/api/v1/users/", { query: { search: search || undefined, limit: 20 } }),
    select: usernames,
  });
}

function usernames({ results }: { results: readonly { username: string }[] }): string[] {
  return results.map(({ username }) => username);
}
