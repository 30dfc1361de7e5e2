import { useMemo, useState } from "react";
import { useMasterLines } from "@/features/brokers/masterLines";
import type { RuleThreshold } from "@/shared/ThresholdReader";
import { Thresholds } from "@/shared/Thresholds";
import type { Format } from "@/ui/measure/Measured";
import { Paper, SimpleGrid, Text } from "@mantine/core";
import { MarkedChart } from "@/shared/MarkedChart";
import type { Marker, Series } from "@/ui/chart/types";

/** Charts of a broker group's numbers. */
export function HistoryCharts({
  name,
  charts,
  ...shared
}: {
  name: string;
  at: readonly number[];
  charts: readonly (readonly Series[])[];
  isPending: boolean;
  border?: Marker | undefined;
  isWhole?: boolean;
}) {
  const { nodeId, lines } = useMasterLines(name);
  const [thresholds, setThresholds] = useState<readonly RuleThreshold[]>();
  const byFormat = useMemo(() => {
    const of = (kind: RuleThreshold["kind"]) => thresholds?.filter((one) => one.kind === kind);
    const found: Partial<Record<Format, readonly RuleThreshold[]>> = { bytes: of("disk"), duration: of("lateness") };
    return found;
  }, [thresholds]);
  return (
    <SimpleGrid cols={{ base: 1, lg: 2 }}>
      {nodeId !== undefined && <Thresholds target={nodeId} lines={lines} onRead={setThresholds} />}
      {charts.map((series) => {
        const label = series.map((each) => each.label).join(" · ");
        return (
          <Paper key={label} withBorder p="sm">
            <Text size="sm" fw={600} mb={4}>
              {label}
            </Text>
            <MarkedChart
              about={{ broker_group: name }}
              label={`${name}: ${label}`}
              series={series}
              thresholds={byFormat[series[0]?.as ?? "count"]}
              height={200}
              {...shared}
            />
          </Paper>
        );
      })}
    </SimpleGrid>
  );
}
