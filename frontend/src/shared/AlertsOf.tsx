import { Alert, Badge, Group, Stack, Text } from "@mantine/core";
import { IconBell } from "@tabler/icons-react";
import { queryOptions, useQuery } from "@tanstack/react-query";
import { useTranslation } from "@/i18n/useTranslation";
import { read } from "@/api/requests";
import { Instant } from "@/ui/measure/Instant";
import { LinkTo } from "@/ui/links/LinkTo";
import { loaded } from "@/ui/page/loaded";
import { useRuleName } from "@/shared/ruleNames";

const SHOWN = 50;

interface About {
  subject: string;
  group?: string;
}

/**
 * Open alerts about something, for a page that waits for them with its own data: a warning above the rest would move
 * it.
 */
export function alertsOfOptions({ subject, group }: About) {
  const which = group === undefined ? { subject } : { target: `${subject}/${group}` };
  return queryOptions({
    queryKey: ["alerts", "of", which],
    queryFn: read("/api/v1/alerts/", { query: { is_open: true, limit: SHOWN, ...which } }),
    refetchInterval: 10_000,
  });
}

/**
 * Open alerts about a consumer group, or about a subject and all of its groups. `framed`: as a warning. Nothing when
 * there are none.
 */
export function AlertsOf({ framed = false, ...about }: About & { framed?: boolean }) {
  const { t } = useTranslation("alerts");
  const ruleName = useRuleName();
  const [data, instead] = loaded(useQuery(alertsOfOptions(about)), null);
  if (!data) return instead;
  const alerts = data.results;
  if (alerts.length === 0) return null;
  const shown = (
    <Stack gap="xs">
      {alerts.map((alert) => (
        <Group key={alert.id} gap="xs" data-alert={alert.state}>
          <Badge variant="light" color={alert.severity === "critical" ? "red" : "yellow"}>
            {t(`severity.${alert.severity}`)}
          </Badge>
          <LinkTo to="/alerts" search={{ target: alert.target }} size="sm">
            {ruleName(alert.rule)}
          </LinkTo>
          {about.group === undefined && <Text size="sm">{alert.target}</Text>}
          <Text size="sm" c="dimmed">
            {t(`of.${alert.state}`)} <Instant at={alert.since} relative />
            {alert.is_silenced && ` · ${t("of.silenced")}`}
            {alert.acknowledged_by && ` · ${t("of.acknowledged", { by: alert.acknowledged_by })}`}
          </Text>
        </Group>
      ))}
    </Stack>
  );
  if (!framed) return shown;
  const isCritical = alerts.some(({ severity, state }) => severity === "critical" && state === "firing");
  return (
    <Alert color={isCritical ? "red" : "yellow"} icon={<IconBell aria-hidden />} py="xs" aria-label={t("of.title")}>
      {shown}
    </Alert>
  );
}
