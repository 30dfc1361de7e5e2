import { queryOptions } from "@tanstack/react-query";
import type { Schema } from "@/api/client";
import { read } from "@/api/requests";

export type Severity = Schema<"AlertRow">["severity"];
export type FiringAlert = Pick<Schema<"AlertRow">, "id" | "rule" | "target" | "severity">;

/** Alerts of a severity that are named; the lists have all. */
export const FIRING_MAX = 10;

/** The newest alerts of a severity that are firing. */
export function firingOptions(severity: Severity) {
  return queryOptions({
    queryKey: ["alerts", "firing", severity],
    queryFn: read("/api/v1/alerts/", { query: { state: ["firing"], severity, limit: FIRING_MAX } }),
    refetchInterval: 10_000,
  });
}
