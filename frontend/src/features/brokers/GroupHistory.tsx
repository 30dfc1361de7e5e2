import { Paper, SimpleGrid, Text } from "@mantine/core";
import { memo, useCallback } from "react";
import { useTranslation } from "react-i18next";
import type { Kind } from "@/features/brokers/queries";
import { MarkedChart } from "@/shared/MarkedChart";
import { LastHour, type Line } from "@/ui/measure/LastHour";
import { Part } from "@/ui/page/Part";

const RIGHT = { axis: "right", colour: "orange" } as const;
const DISK: readonly Line[] = [
  ["disk_used_bytes", "bytes", { style: "area" }],
  ["connections", "count", RIGHT],
];
/** What is drawn together; two units at most. */
const CHARTS: Record<Kind, readonly (readonly Line[])[]> = {
  broker: [
    [
      ["send_rate", "rate"],
      ["pull_rate", "rate", { colour: "teal" }],
    ],
    DISK,
  ],
  delay: [
    [
      ["delivered_per_second", "rate"],
      ["pending", "count", RIGHT],
    ],
    [
      ["lateness_p99_seconds", "duration"],
      ["overdue", "count", RIGHT],
    ],
    DISK,
  ],
};

/** The last hour of a group's master. */
export const GroupHistory = memo(function GroupHistory({ name, kind }: { name: string; kind: Kind }) {
  const { t } = useTranslation("brokers");
  const labelOf = useCallback((field: string) => t(`number.${field}`), [t]);
  return (
    <Part title={t("last_hour")} isRegion>
      <LastHour of={{ broker_group: name }} charts={CHARTS[kind]} labelOf={labelOf}>
        {(at, charts, isPending) => (
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
                    at={at}
                    series={series}
                    height={200}
                    isPending={isPending}
                  />
                </Paper>
              );
            })}
          </SimpleGrid>
        )}
      </LastHour>
    </Part>
  );
});
