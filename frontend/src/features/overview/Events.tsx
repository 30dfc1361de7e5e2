import { Badge, Group, List, ScrollArea, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { Card } from "@/features/overview/Card";
import { lineOf } from "@/format/values";
import { useLive } from "@/live/useLive";
import { Instant } from "@/ui/Instant";

const SHOWN_MAX = 30;

/** What happened lately, newest first: states that changed, nodes that came and went, loops that are late. */
export function Events() {
  const { t } = useTranslation("overview");
  const { state } = useLive("/ws/events/");
  const events = Object.entries(state.events ?? {})
    .sort(([a], [b]) => Number(b) - Number(a))
    .slice(0, SHOWN_MAX);
  return (
    <Card title={t("events")}>
      {events.length === 0 ? (
        <Text c="dimmed">{t("no_events")}</Text>
      ) : (
        <ScrollArea.Autosize mah={300} viewportProps={{ tabIndex: 0, role: "region", "aria-label": t("events") }}>
          <List listStyleType="none" spacing={6} size="sm">
            {events.map(([id, event]) => (
              <List.Item key={id} data-event={lineOf(event.kind)}>
                <Group gap="xs">
                  <Text size="sm" c="dimmed" span>
                    <Instant at={lineOf(event.at)} relative />
                  </Text>
                  <Badge variant="light" color="gray">
                    {t(`event.${lineOf(event.kind)}`, { defaultValue: lineOf(event.kind) })}
                  </Badge>
                  <span className="break">
                    {lineOf(event.target)}: {lineOf(event.before)} → {lineOf(event.after)}
                  </span>
                </Group>
              </List.Item>
            ))}
          </List>
        </ScrollArea.Autosize>
      )}
    </Card>
  );
}
