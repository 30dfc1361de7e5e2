import { queryOptions } from "@tanstack/react-query";
import type { Change, Schema } from "@/api/client";
import { change, read, readWithTag, type Attempt } from "@/api/requests";
import type { Reading } from "@/live/useLive";

export type GroupLag = Schema<"GroupLag">;
export type Detail = Schema<"GroupDetail">;
export type Member = Schema<"GroupMember">;
export type Place = Schema<"OnBrokerGroup">;
export type ResetDone = Schema<"ResetDone">;
export type Created = Schema<"GroupCreated">;
export type ResetRequest = Omit<Schema<"ResetRequest">, "reason">;

/** Keys begin with `groups`: a change of one refreshes all lists. */
export const groupsKey = ["groups"] as const;

/** Counts of states are a summary: they need not be as new as the numbers of rows. */
const STATES_MS = 5_000;

/** Which group; a name alone says little, several subjects may have one of that name. */
export interface GroupName {
  subject: string;
  group: string;
}

/** A group for what is done about it: as it was read when that was opened. */
export interface OfGroup {
  name: GroupName;
  detail: Detail;
  etag: string | null;
}

/** How many groups there are in each state. */
export function statesOptions() {
  return queryOptions({
    queryKey: [...groupsKey, "states"],
    queryFn: async (context) => (await read("/api/v1/lag/", { query: { limit: 1 } })(context)).states,
    refetchInterval: STATES_MS,
  });
}

/** Positions and members, asked of the nodes. */
export function detailOptions(path: GroupName) {
  return queryOptions({
    queryKey: [...groupsKey, "one", path],
    queryFn: readWithTag("/api/v1/consumer-groups/{subject}/{group}/", { path }),
    refetchInterval: 5_000,
  });
}

/** Dead letters of the group; 0 when it has none. */
export function deadLettersOptions(name: GroupName) {
  return queryOptions({
    queryKey: [...groupsKey, "dead-letters", name],
    queryFn: async (context) => {
      const { results, unreachable } = await read("/api/v1/dead-letters/", { query: { ...name } })(context);
      const open = results[0]?.open ?? 0;
      const missing = Object.keys(unreachable);
      const reason = Object.entries(unreachable).map(([group, why]) => `${group}: ${why}`);
      const reading: Reading = missing.length > 0 ? { value: null, atLeast: open, missing } : { value: open };
      return { ...reading, reason: reason.join("; ") || null };
    },
    refetchInterval: 15_000,
  });
}

const NAMES_MAX = 500;

/** The names of a subject's groups. */
export function namesOptions(subject: string) {
  return queryOptions({
    queryKey: [...groupsKey, "names", subject],
    queryFn: async (context) => {
      const query = { subject, limit: NAMES_MAX };
      const { results } = await read("/api/v1/consumer-groups/", { query })(context);
      return results.map(({ name }) => name);
    },
  });
}

/** Set a group's progress. */
export function resetGroup(
  path: GroupName,
  body: ResetRequest,
  etag: string | null,
  attempt: Attempt,
): Promise<ResetDone> {
  return change("post", "/api/v1/consumer-groups/{subject}/{group}/reset/", attempt, { path, etag, body });
}

/** Pause or resume the group, or one of its consumers; `etag`: of the version that the dialog was opened on. */
export function setPaused(
  path: GroupName,
  to: boolean,
  consumerId: string | undefined,
  etag: string | null,
  attempt: Attempt,
): Promise<Change> {
  const group = "/api/v1/consumer-groups/{subject}/{group}" as const;
  const body = consumerId ? { consumer_id: consumerId } : {};
  return change("post", to ? `${group}/pause/` : `${group}/resume/`, attempt, { path, etag, body });
}
