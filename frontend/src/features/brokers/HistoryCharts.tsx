import { Paper, SimpleGrid, Text } from "@mantine/core";
import { MarkedChart } from "@/shared/MarkedChart";
import { useMasterThresholds } from "@/features/brokers/useMasterThresholds";
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
  const thresholdsOf = useMasterThresholds(name);
  return (
    <SimpleGrid cols={{ base: 1, lg: 2 }}>
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
              thresholds={thresholdsOf(series)}
              height={200}
              {...shared}
            />
          </Paper>
        );
      })}
    </SimpleGrid>
  );
}
