import { SimpleGrid } from "@mantine/core";
import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import type { GroupName } from "@/features/groups/queries";
import { fieldAt, sumOf } from "@/live/timeline";
import { groupKey, lagPath } from "@/live/useLive";
import { useTimeline } from "@/live/useTimeline";
import { Part } from "@/ui/page/Part";
import { MarkedChart } from "@/shared/MarkedChart";
import type { Series } from "@/ui/chart/types";

const GROUP_FIELDS = ["backlog", "in_flight", "time_lag_seconds", "pull_rate", "ack_rate"] as const;
const SUBJECT_FIELDS = ["send_rate"] as const;

/** Lag and time lag, and what comes in against what is acked: the last hour, continued live. */
export function Charts({ name: { subject, group } }: { name: GroupName }) {
  const { t } = useTranslation("groups");
  const path = lagPath({ subject, group });
  const ofGroup = useMemo(() => ({ subject, group }), [subject, group]);
  const ofSubject = useMemo(() => ({ subject }), [subject]);
  const numbers = useTimeline(ofGroup, { path, section: "groups", key: groupKey(subject, group) }, GROUP_FIELDS);
  const sent = useTimeline(ofSubject, { path, section: "subjects", key: subject }, SUBJECT_FIELDS);
  const lag = useMemo<Series[]>(
    () => [
      { label: t("column.lag"), values: sumOf(numbers, "backlog", "in_flight"), style: "area", as: "count" },
      {
        label: t("column.time_lag_seconds"),
        values: numbers.values.time_lag_seconds ?? [],
        as: "duration",
        axis: "right",
      },
    ],
    [numbers, t],
  );
  const rates = useMemo<Series[]>(
    () => [
      { label: t("column.send_rate"), values: fieldAt(numbers.at, sent, "send_rate"), as: "rate", style: "area" },
      // Consumers pull ahead, in bursts: below what is acked, in a quiet colour.
      { label: t("column.pull_rate"), values: numbers.values.pull_rate ?? [], as: "rate", colour: "gray" },
      { label: t("column.ack_rate"), values: numbers.values.ack_rate ?? [], as: "rate", colour: "orange" },
    ],
    [numbers, sent, t],
  );
  return (
    <SimpleGrid cols={{ base: 1, lg: 2 }} spacing="lg">
      <Part title={t("chart.lag")}>
        <MarkedChart
          about={ofGroup}
          label={t("chart.lag")}
          at={numbers.at}
          series={lag}
          isPending={numbers.isPending}
        />
      </Part>
      <Part title={t("chart.rates")}>
        <MarkedChart
          about={ofGroup}
          label={t("chart.rates")}
          at={numbers.at}
          series={rates}
          isPending={numbers.isPending}
        />
      </Part>
    </SimpleGrid>
  );
}
