import { SimpleGrid, Stack } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { Retention } from "@/features/subjects/columns";
import { FirstMessage } from "@/features/subjects/FirstMessage";
import { FurthestBehind } from "@/features/subjects/FurthestBehind";
import { subjectOptions } from "@/features/subjects/queries";
import { AlertsOf } from "@/ui/AlertsOf";
import { Part } from "@/ui/Part";
import { Tile } from "@/ui/Tile";
import { lagPath, useLiveEntry, measured } from "@/live/useLive";
import { useTimeline } from "@/live/useTimeline";
import { TimeChart, type Series } from "@/ui/chart/TimeChart";
import { Measured } from "@/ui/Measured";

const TILES = [
  ["send_rate", "rate"],
  ["send_bytes_rate", "bytes"],
  ["stored_messages", "compact"],
  ["sent_messages", "compact"],
] as const;
const FIELDS = ["send_rate", "send_bytes_rate"] as const;

/** A subject at a glance: what is sent and stored, who is furthest behind, what is wrong. */
export default function OverviewTab({ subject }: { subject: string }) {
  const { t } = useTranslation("subjects");
  const { data } = useQuery(subjectOptions(subject));
  const entry = useLiveEntry(lagPath({ subject }), "subjects", subject);
  const row = data?.data;
  if (row?.broker_groups.length === 0 || entry?.sent_messages === 0) {
    return (
      <FirstMessage subject={subject} title={t("first.title")}>
        {t("first.text")}
      </FirstMessage>
    );
  }
  return (
    <Stack gap="lg">
      <SimpleGrid cols={{ base: 2, sm: 3, lg: 5 }} spacing="sm">
        {TILES.map(([field, as]) => (
          <Tile key={field} label={t(`tile.${field}`)} hint={t(`tile.${field}_hint`)}>
            <Measured {...measured(entry, field)} as={as} />
          </Tile>
        ))}
        <Tile label={t("tile.retention")} hint={t("tile.retention_hint")}>
          <Retention hours={row?.retention_hours} />
        </Tile>
      </SimpleGrid>
      <Part title={t("chart.title")}>
        <SendRates subject={subject} />
      </Part>
      <Part title={t("behind.title")}>
        <FurthestBehind subject={subject} />
      </Part>
      <Part title={t("alerts:of.title")}>
        <AlertsOf subject={subject} />
      </Part>
    </Stack>
  );
}

function SendRates({ subject }: { subject: string }) {
  const { t } = useTranslation("subjects");
  const live = { path: lagPath({ subject }), section: "subjects", key: subject };
  const { at, values } = useTimeline({ subject }, live, FIELDS);
  const series = useMemo<Series[]>(
    () => [
      { label: t("chart.send_rate"), values: values.send_rate ?? [], as: "rate", style: "area" },
      { label: t("chart.send_bytes_rate"), values: values.send_bytes_rate ?? [], as: "bytes", axis: "right" },
    ],
    [t, values],
  );
  return <TimeChart label={t("chart.title")} at={at} series={series} />;
}
