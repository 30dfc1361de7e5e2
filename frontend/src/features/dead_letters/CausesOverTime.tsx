import { Group, Paper, Text, Title } from "@mantine/core";
import { useTranslation } from "@/i18n/useTranslation";
import { useMemo, type ReactNode } from "react";
import type { CausePage } from "@/features/dead_letters/queries";
import { count } from "@/format/numbers";
import type { ChartColour, Series } from "@/ui/chart/types";
import { TimeChart } from "@/ui/chart/TimeChart";
import { Unreachable } from "@/ui/measure/Unreachable";
import { useLanguage } from "@/ui/preferences";

const COLOURS: readonly ChartColour[] = ["red", "orange", "blue", "teal", "grape"];
const NAMED_MAX = 8;

/** When dead letters came, by cause; `name` draws the name of one with its count. */
export function CausesOverTime({
  causes,
  name,
}: {
  causes: CausePage;
  name: (cause: string, text: string) => ReactNode;
}) {
  const { t } = useTranslation("dead_letters");
  const language = useLanguage();
  const { timeline } = causes;
  const series = useMemo<Series[]>(() => {
    const label = (cause: string | null) => cause ?? t("cause.none");
    const lines = timeline.series.map<Series>(({ cause, messages }, at) => ({
      label: label(cause),
      values: messages,
      style: "bars",
      colour: cause === null ? "gray" : (COLOURS[at] ?? "cyan"),
    }));
    const hasOthers = timeline.others.some((messages) => messages > 0);
    return hasOthers
      ? [...lines, { label: t("cause.others"), values: timeline.others, style: "bars", colour: "cyan" }]
      : lines;
  }, [timeline, t]);
  const at = useMemo(() => timeline.at.map((text) => Date.parse(text) / 1000), [timeline]);
  if (causes.results.length === 0) return <Unreachable of={causes.unreachable} />;
  return (
    <Paper withBorder p="sm" mb="md" component="section" aria-label={t("cause.over_time")} data-causes-chart="">
      <Group gap="xs" mb={4} align="baseline">
        <Title order={2} size="h5">
          {t("cause.over_time")}
        </Title>
        {causes.results.slice(0, NAMED_MAX).map(({ cause, messages }) => {
          const text = `${cause ?? t("cause.none")} (${count(messages, language)})`;
          return (
            <Text key={cause ?? ""} size="sm" c={cause === null ? "dimmed" : undefined} data-cause-count={messages}>
              {cause === null ? text : name(cause, text)}
            </Text>
          );
        })}
      </Group>
      {at.length > 1 && <TimeChart label={t("cause.over_time")} at={at} series={series} height={130} />}
      <Unreachable of={causes.unreachable} />
      {causes.uncounted > 0 && (
        <Text size="xs" c="dimmed">
          {t("cause.uncounted", { count: causes.uncounted, shown: count(causes.uncounted, language) })}
        </Text>
      )}
      {causes.groups_left_out && (
        <Text size="xs" c="dimmed">
          {t("cause.groups_left_out")}
        </Text>
      )}
    </Paper>
  );
}
