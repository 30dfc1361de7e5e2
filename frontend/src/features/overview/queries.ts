import { queryOptions } from "@tanstack/react-query";
import type { Schema } from "@/api/client";
import { read } from "@/api/requests";

export type Overview = Schema<"Overview">;
export type History = Schema<"History">;

const REFRESH_MS = 3_000;

export function overviewOptions() {
  return queryOptions({
    queryKey: ["overview"],
    queryFn: read("/api/v1/overview/"),
    refetchInterval: REFRESH_MS,
  });
}

/** The last hour of the whole system; a point is added every ten seconds. */
export function systemHistoryOptions() {
  return queryOptions({
    queryKey: ["history", "system"],
    queryFn: read("/api/v1/history/"),
    refetchInterval: 10_000,
  });
}
