import { Alert, Badge, Group, Paper, Stack, Text, Timeline, Title } from "@mantine/core";
import { useTranslation } from "@/i18n/useTranslation";
import type { Standing, Times } from "@/features/trace/queries";
import { Steps } from "@/features/trace/Steps";
import { inGroup } from "@/features/trace/steps";
import { duration } from "@/format/times";
import { GroupLink } from "@/ui/links/links";
import { useLanguage } from "@/ui/preferences";

const COLOURS: Readonly<Record<string, string>> = {
  waiting: "gray",
  in_flight: "blue",
  acked: "teal",
  retried: "orange",
  dead: "red",
  skipped: "grape",
  expired: "grape",
};

/** What became of the message in one consumer group: its state, and how it came to it. */
export function GroupTrace({ standing, subject, storedAt, nowMs }: Times & { standing: Standing; subject: string }) {
  const { t } = useTranslation("trace");
  const language = useLanguage();
  const { group, state, why, links_complete, links_why } = standing;
  const since = state === "waiting" ? storedAt : state === "in_flight" ? standing.pulled_at : null;
  return (
    <Paper withBorder p="md" data-group={group}>
      <Stack gap="sm">
        <Group gap="xs">
          <Title order={3} size="h5">
            <GroupLink subject={subject} group={group} />
          </Title>
          <Badge color={COLOURS[state ?? ""] ?? "gray"} variant="light" tt="none" data-state={state ?? "unknown"}>
            {t(`state.${state ?? "unknown"}`)}
          </Badge>
          {standing.broadcast && (
            <Badge variant="default" tt="none">
              {t("broadcast")}
            </Badge>
          )}
        </Group>
        <Text size="sm" c="dimmed">
          {t(`state_why.${state ?? "unknown"}`)}
        </Text>
        {why && (
          <Text size="sm" c="dimmed">
            {t("nodes_say", { why })}
          </Text>
        )}
        <Steps
          label={t("steps_of", { group })}
          steps={inGroup(standing, storedAt)}
          last={
            since && (
              <Timeline.Item role="listitem" lineVariant="dashed" title={t(`now.${state ?? "unknown"}`)}>
                <Text size="sm" c="dimmed">
                  {t("now_since", { duration: duration(Math.max(0, nowMs - Date.parse(since)) / 1000, language) })}
                </Text>
              </Timeline.Item>
            )
          }
        />
        {!links_complete && (
          <Alert color="yellow" p="xs">
            {t("links_incomplete")} {links_why}
          </Alert>
        )}
      </Stack>
    </Paper>
  );
}
