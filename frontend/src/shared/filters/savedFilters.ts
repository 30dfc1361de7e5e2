import { queryOptions } from "@tanstack/react-query";
import type { Schema } from "@/api/client";
import { change, etagOf, read, type Attempt } from "@/api/requests";

/** Saved filters of a subject, as the API has them. */

export type SavedFilter = Schema<"SavedFilterRow">;
/** What is set of one; `team` "": only the user sees it. */
export interface Draft {
  name: string;
  filter: string;
  team: string;
}

const LIST = "/api/v1/subjects/{subject}/saved-filters/";
const ONE = "/api/v1/subjects/{subject}/saved-filters/{filter_id}/";
/** More than a user and a few teams can have. */
const ROWS_MAX = 500;

export const savedKey = (subject: string) => ["saved-filters", subject] as const;

export function savedOptions(subject: string) {
  return queryOptions({
    queryKey: savedKey(subject),
    queryFn: read(LIST, { path: { subject }, query: { limit: ROWS_MAX } }),
  });
}

const bodyOf = ({ name, filter, team }: Draft) => ({ name, filter, team: team || null });

export function save(subject: string, draft: Draft, attempt: Attempt) {
  return change("post", LIST, attempt, { path: { subject }, body: bodyOf(draft) });
}

export function update(subject: string, row: SavedFilter, draft: Draft, attempt: Attempt) {
  const path = { subject, filter_id: Number(row.id) };
  return change("patch", ONE, attempt, { path, body: bodyOf(draft), etag: etagOf(row) });
}

export function remove(subject: string, row: SavedFilter, attempt: Attempt) {
  return change("delete", ONE, attempt, { path: { subject, filter_id: Number(row.id) }, etag: etagOf(row) });
}

/**
 * Teams that a user can share a filter with: the subject's owner first, then their own. An administrator is in any
 * team. Pure.
 */
export function teamsFor(me: { role: string; teams: readonly string[] }, owner: string | null): readonly string[] {
  const ofOwner = owner !== null && (me.role === "admin" || me.teams.includes(owner)) ? [owner] : [];
  return [...new Set([...ofOwner, ...me.teams])];
}
