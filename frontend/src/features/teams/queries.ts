import { queryOptions } from "@tanstack/react-query";
import { api, must, mustWithTag, type Change, type Schema } from "@/api/client";
import type { Attempt } from "@/api/requests";
import type { Load } from "@/ui/table/types";

export type Team = Schema<"TeamRow">;
export type Member = Schema<"Member">;
export type OwnedSubject = Schema<"SubjectRow">;

/** Keys begin with `teams`: a change of one refreshes all, the pickers' names too. */
export const teamsKey = ["teams"] as const;
/** As many as the API takes at once. */
export const MEMBERS_MAX = 500;

export const loadTeams: Load<Team> = (query, signal) => must(api.GET("/api/v1/teams/", { params: { query }, signal }));

export function loadMembers(team: string): Load<Member> {
  return (query, signal) =>
    must(api.GET("/api/v1/teams/{team}/members/", { params: { path: { team }, query }, signal }));
}

export function loadSubjectsOf(team: string): Load<OwnedSubject> {
  return (query, signal) =>
    must(api.GET("/api/v1/subjects/", { params: { query: { ...query, owner: team } }, signal }));
}

export function teamOptions(team: string) {
  return queryOptions({
    queryKey: [...teamsKey, team],
    queryFn: ({ signal }) => mustWithTag(api.GET("/api/v1/teams/{team}/", { params: { path: { team } }, signal })),
  });
}

/** All members' names, for changing them. */
export function memberNamesOptions(team: string) {
  return queryOptions({
    queryKey: [...teamsKey, team, "names"],
    queryFn: async ({ signal }) => {
      const params = { path: { team }, query: { limit: MEMBERS_MAX } };
      const { results } = await must(api.GET("/api/v1/teams/{team}/members/", { params, signal }));
      return results.map(({ username }) => username);
    },
  });
}

/** Users whose name or address has the text; a few are enough to choose from. */
export function usersLikeOptions(search: string) {
  return queryOptions({
    queryKey: ["users", "like", search],
    queryFn: async ({ signal }) => {
      const query = { search: search || undefined, limit: 20 };
      const { results } = await must(api.GET("/api/v1/users/", { params: { query }, signal }));
      return results.map(({ username }) => username);
    },
  });
}

export function createTeam(name: string, description: string, { dryRun, reason }: Attempt): Promise<Change> {
  return must(
    api.POST("/api/v1/teams/", { params: { query: { dry_run: dryRun } }, body: { name, description, reason } }),
  );
}

function of(team: string, etag: string | null, dryRun: boolean) {
  return { path: { team }, query: { dry_run: dryRun }, header: etag ? { "If-Match": etag } : {} };
}

export function describeTeam(
  team: string,
  description: string,
  etag: string | null,
  { dryRun, reason }: Attempt,
): Promise<Change> {
  return must(api.PATCH("/api/v1/teams/{team}/", { params: of(team, etag, dryRun), body: { description, reason } }));
}

export function setMembers(
  team: string,
  members: string[],
  etag: string | null,
  { dryRun, reason }: Attempt,
): Promise<Change> {
  return must(api.PUT("/api/v1/teams/{team}/members/", { params: of(team, etag, dryRun), body: { members, reason } }));
}

export function deleteTeam(team: string, etag: string | null, { dryRun, reason }: Attempt): Promise<Change> {
  return must(api.DELETE("/api/v1/teams/{team}/", { params: of(team, etag, dryRun), body: { reason } }));
}
