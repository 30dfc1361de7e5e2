import { Badge, Group, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { alertsOptions } from "@/features/subjects/queries";
import { Instant } from "@/ui/Instant";
import { LinkTo } from "@/ui/LinkTo";
import { loaded } from "@/ui/loaded";

/** Open alerts about a subject's consumer groups. */
export function Alerts({ subject }: { subject: string }) {
  const { t } = useTranslation("subjects");
  const [data, instead] = loaded(useQuery(alertsOptions(subject)), null);
  if (!data) return instead;
  if (data.length === 0) return <Text c="dimmed">{t("alerts.none")}</Text>;
  return (
    <Stack gap="xs">
      {data.map((alert) => (
        <Group key={alert.id} gap="xs" data-alert={alert.state}>
          <Badge variant="light" color={alert.severity === "critical" ? "red" : "orange"} tt="none">
            {t(`alerts.${alert.severity}`)}
          </Badge>
          <LinkTo to="/alerts" search={{ target: alert.target }} size="sm">
            {alert.rule}
          </LinkTo>
          <Text size="sm">{alert.target}</Text>
          <Text size="sm" c="dimmed">
            {t(`alerts.${alert.state}`)} <Instant at={alert.since} relative />
          </Text>
        </Group>
      ))}
    </Stack>
  );
}
