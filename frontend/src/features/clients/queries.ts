import { queryOptions } from "@tanstack/react-query";
import type { Schema } from "@/api/client";
import { read } from "@/api/requests";

export type Client = Schema<"ClientRow">;
export type Differing = Schema<"DifferingGroup">;

export const REFRESH_MS = 5_000;

export const clientsKey = (subject: string | undefined) => ["clients", subject ?? ""] as const;

/** The groups whose members subscribe differently, and how many clients nodes did not list; without the clients. */
export function differingOptions(subject?: string) {
  return queryOptions({
    queryKey: [...clientsKey(subject), "differing"],
    queryFn: read("/api/v1/clients/", { query: { subject, differs: true, limit: 1 } }),
    refetchInterval: 15_000,
  });
}

/** Producers that the page of a subject shows; the newest messages below them stay in sight. */
const SENDERS_SHOWN = 3;

/** The producers of a subject with the highest rates. */
export function sendersOptions(subject: string) {
  return queryOptions({
    queryKey: [...clientsKey(subject), "senders"],
    queryFn: read("/api/v1/clients/", { query: { subject, role: "producer", limit: SENDERS_SHOWN } }),
    refetchInterval: REFRESH_MS,
  });
}
