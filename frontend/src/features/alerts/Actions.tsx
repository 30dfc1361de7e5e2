import { ActionIcon, Group, Tooltip } from "@mantine/core";
import { IconCheck, IconVolumeOff } from "@tabler/icons-react";
import { useTranslation } from "react-i18next";
import type { Alert } from "@/features/alerts/queries";

/** What can be done about an open alert. */
export function Actions({
  alert,
  onAcknowledge,
  onSilence,
}: {
  alert: Alert;
  onAcknowledge: () => void;
  onSilence: () => void;
}) {
  const { t } = useTranslation("alerts");
  if (alert.state === "resolved") return null;
  const about = { rule: alert.rule, target: alert.target };
  return (
    <Group gap={4} wrap="nowrap">
      {!alert.acknowledged_at && (
        <Tooltip label={t("acknowledge.action")}>
          <ActionIcon variant="default" aria-label={t("acknowledge.of", about)} onClick={onAcknowledge}>
            <IconCheck size={16} aria-hidden />
          </ActionIcon>
        </Tooltip>
      )}
      {!alert.is_silenced && (
        <Tooltip label={t("silence.action")}>
          <ActionIcon variant="default" aria-label={t("silence.of", about)} onClick={onSilence}>
            <IconVolumeOff size={16} aria-hidden />
          </ActionIcon>
        </Tooltip>
      )}
    </Group>
  );
}
