import { queryOptions, type QueryKey } from "@tanstack/react-query";
import type { Schema } from "@/api/client";
import { read, readWithTag } from "@/api/requests";

export type BrokerGroup = Schema<"BrokerGroupRow">;
export type BrokerGroupDetail = Schema<"BrokerGroupDetail">;
export type NodeRow = Schema<"NodeRow">;
export type NodeDetail = Schema<"NodeDetail">;
export type Kind = BrokerGroup["kind"];

/** What operators decide about a broker group, by the last part of the address. */
export type Decision = "approve" | "read-only" | "drain" | "writable";

/** What a button of the group's page changes. */
export type GroupAction = Decision | "describe" | "remove";

/** The change that a dialog is open for, and the version of the group that it changes: the page refreshes meanwhile. */
export interface Doing {
  action: GroupAction;
  etag: string | null;
}

/** States and numbers come live; what is asked for here changes seldom. */
const REFRESH_MS = 10_000;
/** While subjects move; also how often nodes report their roles to metaservers. */
const MOVING_REFRESH_MS = 2_000;
const GROUPS_MAX = 500;

export const brokersKey = ["broker-groups"] as const;

/** The groups of the drawing: as many as a page of the API holds. */
export function topologyOptions() {
  return queryOptions({
    queryKey: [...brokersKey, "topology"],
    queryFn: read("/api/v1/broker-groups/", { query: { ordering: "name", limit: GROUPS_MAX } }),
    refetchInterval: REFRESH_MS,
  });
}

/** A group with its ETag. */
export function groupOptions(name: string) {
  return queryOptions({
    queryKey: [...brokersKey, "one", name],
    queryFn: (context) => readWithTag("/api/v1/broker-groups/{name}/", { path: { name } })(context),
    refetchInterval: ({ state: { data: { data } = {} } }) =>
      data && (data.subjects_moving || data.copies > 1) ? MOVING_REFRESH_MS : REFRESH_MS,
  });
}

/** The job that moves subjects: its result says what it waits for. */
export function movesOptions() {
  return queryOptions({
    queryKey: ["jobs", "moves"],
    queryFn: read("/api/v1/jobs/{name}/", { path: { name: "moves" } }),
    refetchInterval: MOVING_REFRESH_MS,
  });
}

/** A node, asked now. */
export function nodeOptions(nodeId: string) {
  return queryOptions({
    queryKey: ["nodes", nodeId],
    queryFn: read("/api/v1/nodes/{node_id}/", { path: { node_id: nodeId } }),
    refetchInterval: MOVING_REFRESH_MS,
  });
}

/** What a change makes out of date: lists, pages and the start page's counts. */
export const OUTDATED: readonly QueryKey[] = [brokersKey, ["nodes"], ["subjects"], ["overview"]];
