import { Alert, Group, Stack, Text } from "@mantine/core";
import { IconBell } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { alertsOptions, type GroupName } from "@/features/groups/queries";
import { Instant } from "@/ui/Instant";
import { LinkTo } from "@/ui/LinkTo";
import { ProblemAlert } from "@/ui/ProblemAlert";
import { useRuleName } from "@/ui/ruleNames";

/** Open alerts about the group; nothing when there are none. */
export function Alerts({ name }: { name: GroupName }) {
  const { t } = useTranslation("groups");
  const ruleName = useRuleName();
  const { data, error, refetch } = useQuery(alertsOptions(name));
  if (error) return <ProblemAlert error={error} onRetry={() => void refetch()} />;
  if (!data || data.length === 0) return null;
  const isCritical = data.some(({ severity, state }) => severity === "critical" && state === "firing");
  return (
    <Alert color={isCritical ? "red" : "orange"} icon={<IconBell aria-hidden />} title={t("alerts.title")}>
      <Stack gap={4}>
        {data.map((alert) => (
          <Group key={alert.id} gap="xs" data-alert={alert.state}>
            <LinkTo to="/alerts" search={{ target: alert.target }} size="sm">
              {ruleName(alert.rule)}
            </LinkTo>
            <Text size="sm">
              {t(`alerts.${alert.severity}`)} · {t(`alerts.${alert.state}`)} <Instant at={alert.since} relative />
              {alert.is_silenced && ` · ${t("alerts.silenced")}`}
              {alert.acknowledged_by && ` · ${t("alerts.acknowledged", { by: alert.acknowledged_by })}`}
            </Text>
          </Group>
        ))}
      </Stack>
    </Alert>
  );
}
