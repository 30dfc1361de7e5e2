import { Badge, Group } from "@mantine/core";
import { IconAlertTriangle, IconFlame, IconVolumeOff } from "@tabler/icons-react";
import { useTranslation } from "react-i18next";
import type { Alert } from "@/features/alerts/queries";

const STATES = { firing: "red", pending: "yellow", resolved: "teal" } as const;

/** How bad, by word, sign and colour. */
export function SeverityBadge({ severity }: { severity: Alert["severity"] }) {
  const { t } = useTranslation("alerts");
  const isCritical = severity === "critical";
  const Icon = isCritical ? IconFlame : IconAlertTriangle;
  return (
    <Badge
      color={isCritical ? "red" : "yellow"}
      variant="light"
      leftSection={<Icon size={12} aria-hidden />}
      data-severity={severity}
    >
      {t(`severity.${severity}`)}
    </Badge>
  );
}

/** Where an alert is; of one that ended why, of an open one whether it is told to nobody. */
export function StateBadges({ alert }: { alert: Alert }) {
  const { t } = useTranslation("alerts");
  return (
    <Group gap={4} wrap="nowrap">
      <Badge
        color={STATES[alert.state]}
        variant={alert.state === "firing" ? "filled" : "light"}
        data-state={alert.state}
      >
        {alert.resolution ? t(`resolution.${alert.resolution}`) : t(`state.${alert.state}`)}
      </Badge>
      {alert.is_silenced && (
        <Badge color="gray" variant="light" leftSection={<IconVolumeOff size={12} aria-hidden />}>
          {t("silenced")}
        </Badge>
      )}
    </Group>
  );
}
