import { Paper, SimpleGrid, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { memo, useMemo } from "react";
import { useTranslation } from "react-i18next";
import { groupHistoryOptions, type Kind } from "@/features/brokers/queries";
import { TimeChart, type Series } from "@/ui/chart/TimeChart";
import type { Format } from "@/ui/Measured";
import { ProblemAlert } from "@/ui/ProblemAlert";

type Line = [field: string, as: Format, more?: Pick<Series, "axis" | "style" | "colour">];
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
  const { data, error, refetch } = useQuery(groupHistoryOptions(name));
  const at = useMemo(() => (data?.at ?? []).map((instant) => Date.parse(instant) / 1000), [data]);
  const charts = useMemo(() => {
    const unknown = at.map(() => null);
    return CHARTS[kind].map((lines) =>
      lines.map(([field, as, more]): Series => ({
        label: t(`number.${field}`),
        values: data?.fields[field] ?? unknown,
        as,
        ...more,
      })),
    );
  }, [data, at, kind, t]);
  return (
    <section aria-label={t("last_hour")}>
      <Title order={2} size="h4" mb="xs">
        {t("last_hour")}
      </Title>
      {error && <ProblemAlert error={error} onRetry={() => void refetch()} />}
      {data?.reason && <Text c="dimmed">{data.reason}</Text>}
      {!data?.reason && !error && (
        <SimpleGrid cols={{ base: 1, lg: 2 }}>
          {charts.map((series) => {
            const label = series.map((each) => each.label).join(" · ");
            return (
              <Paper key={label} withBorder p="sm">
                <Text size="sm" fw={600} mb={4}>
                  {label}
                </Text>
                <TimeChart label={`${name}: ${label}`} at={at} series={series} height={200} isPending={!data} />
              </Paper>
            );
          })}
        </SimpleGrid>
      )}
    </section>
  );
});
