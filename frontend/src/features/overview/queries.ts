import { queryOptions } from "@tanstack/react-query";
import type { Schema } from "@/api/client";
import { read } from "@/api/requests";

export type Overview = Schema<"Overview">;
export type Flow = Schema<"FlowPicture">;
export type FlowPlace = Schema<"FlowPlace">;

export type BrokerGroup = Pick<Schema<"BrokerGroupRow">, "name" | "in_sync" | "in_sync_min_in_force" | "members">;

const REFRESH_MS = 3_000;
const FLOW_REFRESH_MS = 5_000;

export const overviewKey = ["overview"] as const;

export function overviewOptions() {
  return queryOptions({
    queryKey: overviewKey,
    queryFn: read("/api/v1/overview/"),
    refetchInterval: REFRESH_MS,
  });
}

/** Who sends how much to what, and who acknowledges it. */
export function flowOptions() {
  return queryOptions({
    queryKey: ["flow"],
    queryFn: read("/api/v1/flow/"),
    refetchInterval: FLOW_REFRESH_MS,
  });
}

/** Broker groups, for why one rejects sends. */
export function brokerGroupsOptions() {
  return queryOptions({
    queryKey: ["broker-groups", "of-overview"],
    queryFn: read("/api/v1/broker-groups/", { query: { limit: 500 } }),
    refetchInterval: 10_000,
  });
}
