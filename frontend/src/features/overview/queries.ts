import { queryOptions } from "@tanstack/react-query";
import { api, must, type Schema } from "@/api/client";

export type Overview = Schema<"Overview">;
export type History = Schema<"History">;

const REFRESH_MS = 3_000;

export function overviewOptions() {
  return queryOptions({
    queryKey: ["overview"],
    queryFn: ({ signal }) => must(api.GET("/api/v1/overview/", { signal })),
    refetchInterval: REFRESH_MS,
  });
}

/** The last hour of the whole system; a point is added every ten seconds. */
export function systemHistoryOptions() {
  return queryOptions({
    queryKey: ["history", "system"],
    queryFn: ({ signal }) => must(api.GET("/api/v1/history/", { signal })),
    refetchInterval: 10_000,
  });
}
