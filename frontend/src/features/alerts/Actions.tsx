import { Button, Group } from "@mantine/core";
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
        <Button
          size="compact-sm"
          variant="default"
          leftSection={<IconCheck size={14} aria-hidden />}
          aria-label={t("acknowledge.of", about)}
          onClick={onAcknowledge}
        >
          {t("acknowledge.action")}
        </Button>
      )}
      {!alert.is_silenced && (
        <Button
          size="compact-sm"
          variant="default"
          leftSection={<IconVolumeOff size={14} aria-hidden />}
          aria-label={t("silence.of", about)}
          onClick={onSilence}
        >
          {t("silence.action")}
        </Button>
      )}
    </Group>
  );
}
