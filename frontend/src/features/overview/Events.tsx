import { Badge, Group, List, ScrollArea, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { Card } from "@/features/overview/Card";
import { describe } from "@/features/overview/describe";
import { useLive } from "@/live/useLive";
import { Instant } from "@/ui/measure/Instant";

const SHOWN_MAX = 30;

/** Recent events, newest first: states that changed, nodes that stopped or resumed responding, overdue jobs. */
export function Events() {
  const { t } = useTranslation("overview");
  const { state } = useLive("/ws/events/");
  const events = Object.entries(state.events ?? {})
    .sort(([a], [b]) => Number(b) - Number(a))
    .slice(0, SHOWN_MAX)
    .map(([id, event]) => ({ id, at: event.at, ...describe(event) }));
  return (
    <Card title={t("events")}>
      {events.length === 0 ? (
        <Text c="dimmed">{t("no_events")}</Text>
      ) : (
        <ScrollArea.Autosize mah={300} viewportProps={{ tabIndex: 0, role: "region", "aria-label": t("events") }}>
          <List listStyleType="none" spacing={6} size="sm">
            {events.map(({ id, at, kind, target, change }) => (
              <List.Item key={id} data-event={kind}>
                <Group gap="xs">
                  <Text size="sm" c="dimmed" span>
                    <Instant at={typeof at === "string" ? at : ""} relative />
                  </Text>
                  <Badge variant="light" color="gray">
                    {t(`event.${kind}`, { defaultValue: kind })}
                  </Badge>
                  <span className="break">
                    {[target, change.map((value) => t(`event_value.${value}`, { defaultValue: value })).join(" → ")]
                      .filter(Boolean)
                      .join(": ")}
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
