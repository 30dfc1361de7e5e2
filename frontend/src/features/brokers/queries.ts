import { queryOptions, type QueryClient } from "@tanstack/react-query";
import { api, must, mustWithTag, type Change, type Schema } from "@/api/client";
import type { Attempt } from "@/api/requests";
import type { Load } from "@/ui/table/types";

export type BrokerGroup = Schema<"BrokerGroupRow">;
export type BrokerGroupDetail = Schema<"BrokerGroupDetail">;
export type NodeRow = Schema<"NodeRow">;
export type NodeDetail = Schema<"NodeDetail">;
export type Placed = Schema<"SubjectRow">;
export type Kind = BrokerGroup["kind"];

/** What operators decide about a broker group, by the last part of the address. */
export type Decision = "approve" | "read-only" | "drain" | "writable";

/** States and numbers come live; what is asked for here changes seldom. */
const REFRESH_MS = 10_000;
/** While subjects move one wants to see them go. */
const MOVING_REFRESH_MS = 2_000;
const GROUPS_MAX = 500;

export const brokersKey = ["broker-groups"] as const;

export const loadGroups: Load<BrokerGroup> = (query, signal) =>
  must(api.GET("/api/v1/broker-groups/", { params: { query }, signal }));

/** The groups of the drawing: as many as a page of the API holds. */
export function topologyOptions() {
  return queryOptions({
    queryKey: [...brokersKey, "topology"],
    queryFn: ({ signal }) => loadGroups({ ordering: "name", limit: String(GROUPS_MAX) }, signal),
    refetchInterval: REFRESH_MS,
  });
}

/** A group with its ETag. */
export function groupOptions(name: string) {
  return queryOptions({
    queryKey: [...brokersKey, "one", name],
    queryFn: ({ signal }) =>
      mustWithTag(api.GET("/api/v1/broker-groups/{name}/", { params: { path: { name } }, signal })),
    refetchInterval: ({ state }) => (state.data?.data.subjects_moving ? MOVING_REFRESH_MS : REFRESH_MS),
  });
}

/** The last hour of its master; a point is added every ten seconds. */
export function groupHistoryOptions(name: string) {
  return queryOptions({
    queryKey: ["history", "broker_group", name],
    queryFn: ({ signal }) => must(api.GET("/api/v1/history/", { params: { query: { broker_group: name } }, signal })),
    refetchInterval: REFRESH_MS,
  });
}

/** The loop that moves subjects: its result says what it waits for. */
export function movesOptions() {
  return queryOptions({
    queryKey: ["tasks", "moves"],
    queryFn: ({ signal }) => must(api.GET("/api/v1/tasks/{name}/", { params: { path: { name: "moves" } }, signal })),
    refetchInterval: MOVING_REFRESH_MS,
  });
}

/** A node, asked now. */
export function nodeOptions(nodeId: string) {
  return queryOptions({
    queryKey: ["nodes", nodeId],
    queryFn: ({ signal }) =>
      must(api.GET("/api/v1/nodes/{node_id}/", { params: { path: { node_id: nodeId } }, signal })),
    refetchInterval: MOVING_REFRESH_MS,
  });
}

/** The subjects that a broker group serves, those that come or go included. */
export function loadPlaced(name: string): Load<Placed> {
  return (query, signal) =>
    must(api.GET("/api/v1/subjects/", { params: { query: { ...query, broker_group: name } }, signal }));
}

function asked(name: string, etag: string | null, dryRun: boolean) {
  return { path: { name }, query: { dry_run: dryRun }, header: etag ? { "If-Match": etag } : {} };
}

export function decide(name: string, to: Decision, etag: string | null, { dryRun, reason }: Attempt): Promise<Change> {
  const init = { params: asked(name, etag, dryRun), body: { reason } };
  switch (to) {
    case "approve":
      return must(api.POST("/api/v1/broker-groups/{name}/approve/", init));
    case "read-only":
      return must(api.POST("/api/v1/broker-groups/{name}/read-only/", init));
    case "drain":
      return must(api.POST("/api/v1/broker-groups/{name}/drain/", init));
    case "writable":
      return must(api.POST("/api/v1/broker-groups/{name}/writable/", init));
  }
}

export function describe(
  name: string,
  description: string,
  etag: string | null,
  { dryRun, reason }: Attempt,
): Promise<Change> {
  const init = { params: asked(name, etag, dryRun), body: { description, reason } };
  return must(api.PATCH("/api/v1/broker-groups/{name}/", init));
}

export function remove(name: string, etag: string | null, { dryRun, reason }: Attempt): Promise<Change> {
  const init = { params: asked(name, etag, dryRun), body: { reason } };
  return must(api.DELETE("/api/v1/broker-groups/{name}/", init));
}

export interface NewGroup {
  name: string;
  kind: Kind;
  description: string;
}

export function announce(group: NewGroup, { dryRun, reason }: Attempt): Promise<Change> {
  const init = { params: { query: { dry_run: dryRun } }, body: { ...group, reason } };
  return must(api.POST("/api/v1/broker-groups/", init));
}

export function acceptLogLoss(nodeId: string, logEnd: string, { dryRun, reason }: Attempt): Promise<Change> {
  const init = {
    params: { path: { node_id: nodeId }, query: { dry_run: dryRun } },
    body: { log_end: logEnd, reason },
  };
  return must(api.POST("/api/v1/nodes/{node_id}/accept-log-loss/", init));
}

/** To be called after a change: lists, pages and the start page's counts are asked anew. */
export async function refresh(client: QueryClient): Promise<void> {
  await Promise.all(
    [brokersKey, ["nodes"], ["subjects"], ["overview"]].map((queryKey) => client.invalidateQueries({ queryKey })),
  );
}
