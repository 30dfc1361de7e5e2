import { queryOptions } from "@tanstack/react-query";
import type { Schema } from "@/api/client";
import { read } from "@/api/requests";

export type Alert = Schema<"AlertRow">;
export type AlertKind = Schema<"AlertKind">;
export type Severity = Alert["severity"];

/** All keys begin with `alerts`: a rule's change ends alerts, a silence shows on them. */
export const alertsKey = ["alerts"] as const;

/** Firing alerts that are counted and named; the list of alerts has all. */
export const FIRING_MAX = 20;

/** The alerts that are firing, critical ones first. */
export function firingOptions() {
  return queryOptions({
    queryKey: [...alertsKey, "firing"],
    queryFn: read("/api/v1/alerts/", { query: { state: ["firing"], limit: FIRING_MAX } }),
    refetchInterval: 10_000,
  });
}
