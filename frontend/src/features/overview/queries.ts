import { queryOptions } from "@tanstack/react-query";
import type { Schema } from "@/api/client";
import { read } from "@/api/requests";

export type Overview = Schema<"Overview">;

const REFRESH_MS = 3_000;

export function overviewOptions() {
  return queryOptions({
    queryKey: ["overview"],
    queryFn: read("/api/v1/overview/"),
    refetchInterval: REFRESH_MS,
  });
}
