import { useMemo } from "react";
import { useLive } from "@/live/useLive";
import type { Lines } from "@/shared/ThresholdReader";

/** The node ID of a broker group's master, and how charts of it show the thresholds of rules. */
export function useMasterLines(name: string): { nodeId: string | undefined; lines: Lines } {
  const { state } = useLive("/ws/nodes/");
  const [nodeId, master] =
    Object.entries(state.nodes ?? {}).find(([, entry]) => entry.broker_group === name && entry.is_master === true) ??
    [];
  const total = typeof master?.disk_total_bytes === "number" ? master.disk_total_bytes : null;
  const lines = useMemo<Lines>(
    () => ({
      // Thresholds are in percent.
      disk: { as: "bytes", axis: "left", scale: total === null ? null : total / 100 },
      lateness: { as: "duration", axis: "left" },
    }),
    [total],
  );
  return { nodeId, lines };
}
