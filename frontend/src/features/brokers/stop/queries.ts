import { queryOptions } from "@tanstack/react-query";
import type { Schema } from "@/api/client";
import { read } from "@/api/requests";

export type StopEffect = Schema<"MayStop">;

const REFRESH_MS = 10_000;

/** What would happen if a node were stopped now; asked again when the roles of its group (`of`) are others. */
export function stopOptions(nodeId: string, of = "") {
  return queryOptions({
    queryKey: ["nodes", nodeId, "may-stop", of],
    queryFn: read("/api/v1/nodes/{node_id}/may-stop/", { path: { node_id: nodeId } }),
    refetchInterval: REFRESH_MS,
  });
}
