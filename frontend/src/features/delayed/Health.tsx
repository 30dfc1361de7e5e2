import { Alert, Paper, SimpleGrid, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { dueSoon, HOUR_MS, type Counts } from "@/features/delayed/calendar";
import { delayHealth, type Total } from "@/features/delayed/health";
import { dateTime } from "@/format/times";
import { useLive } from "@/live/useLive";
import { Measured, type Format } from "@/ui/measure/Measured";
import { useZone } from "@/ui/preferences";
import { useNowBy } from "@/ui/measure/useNow";

interface Tile {
  id: string;
  total: Total;
  as?: Format;
  hint?: string;
}

/**
 * How the delay groups do: what waits, what comes soon, what is late. `counts` is null while the calendar is not known.
 */
export function Health({ counts, reason }: { counts: Counts | null; reason: string | null }) {
  const { t } = useTranslation("delayed");
  const zone = useZone();
  const soon = dueSoon(counts ?? new Map(), useNowBy(HOUR_MS));
  const live = useLive("/ws/nodes/");
  const health = delayHealth(live.state);
  if (live.at !== null && health.nodes.length === 0) {
    return (
      <Alert color="yellow" title={t("health.none")}>
        {t("health.none_text")}
      </Alert>
    );
  }
  const tiles: Tile[] = [
    { id: "pending", total: health.pending },
    {
      id: "soon",
      total: { value: counts === null ? null : soon.count, reason },
      hint: t("health.until", { at: dateTime(new Date(soon.until).toISOString(), zone).slice(-8, -3) }),
    },
    { id: "overdue", total: health.overdue },
    { id: "put_aside", total: health.putAside },
    { id: "rate", total: health.deliveredPerSecond, as: "rate" },
    {
      id: "lateness",
      total: { ...health.latenessP99, reason: health.latenessP99.reason ?? t("health.no_lateness") },
      as: "duration",
    },
  ];
  return (
    <SimpleGrid cols={{ base: 2, sm: 3, lg: 6 }} spacing="sm">
      {tiles.map(({ id, total, as, hint }) => (
        <Paper key={id} withBorder p="sm" data-tile={id}>
          <Text size="xs" c="dimmed">
            {t(`health.${id}`)} {hint}
          </Text>
          <Text size="xl" fw={700} c={id === "overdue" && total.value ? "orange" : undefined}>
            <Measured value={total.value} as={as} reason={total.reason} />
          </Text>
        </Paper>
      ))}
    </SimpleGrid>
  );
}
