import { useMemo } from "react";
import { useLive } from "@/live/useLive";
import { useThresholds, type Lines } from "@/shared/useThresholds";
import type { Series, Threshold } from "@/ui/chart/types";

/** The thresholds of the rules that concern a group's master, by the chart whose first line they limit. */
export function useMasterThresholds(name: string): (series: readonly Series[]) => readonly Threshold[] | undefined {
  const { state } = useLive("/ws/nodes/");
  const [nodeId, master] =
    Object.entries(state.nodes ?? {}).find(([, entry]) => entry.broker_group === name && entry.is_master === true) ??
    [];
  const total = typeof master?.disk_total_bytes === "number" ? master.disk_total_bytes : null;
  const lines = useMemo<Lines>(
    () => ({
      disk: { as: "bytes", axis: "left", scale: total === null ? null : total / 100 },
      lateness: { as: "duration", axis: "left" },
    }),
    [total],
  );
  const thresholds = useThresholds(nodeId ?? "", lines);
  return useMemo(() => {
    const byFormat = {
      bytes: thresholds?.filter(({ kind }) => kind === "disk"),
      duration: thresholds?.filter(({ kind }) => kind === "lateness"),
    };
    return ([first]) => (first?.as === "bytes" || first?.as === "duration" ? byFormat[first.as] : undefined);
  }, [thresholds]);
}
