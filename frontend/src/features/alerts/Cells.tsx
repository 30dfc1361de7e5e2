import { Badge, Group } from "@mantine/core";
import { IconCheck, IconDots, IconVolumeOff, type Icon } from "@tabler/icons-react";
import { useTranslation } from "@/i18n/useTranslation";
import type { Alert } from "@/api/alerts";
import { IconButton } from "@/ui/menu/buttons";
import { MenuButton } from "@/ui/menu/MenuButton";

const STATES = { firing: "red", pending: "yellow", resolved: "teal" } as const;

/** Whether a rule or a channel is on. */
export function EnabledBadge({ isOn }: { isOn: boolean }) {
  const { t } = useTranslation("alerts");
  return (
    <Badge color={isOn ? "teal" : "gray"} variant="light">
      {t(isOn ? "on" : "off")}
    </Badge>
  );
}

/** Where an alert is; of one that ended why, of an open one whether a silence suppresses its notifications. */
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
  const button = (what: "acknowledge" | "silence", icon: Icon, onClick: () => void) => (
    <IconButton
      size="md"
      iconSize={16}
      icon={icon}
      hint={t(`${what}.action`)}
      label={t(`${what}.of`, about)}
      onClick={onClick}
    />
  );
  return (
    <Group gap={4} wrap="nowrap">
      {!alert.acknowledged_at && button("acknowledge", IconCheck, onAcknowledge)}
      {!alert.is_silenced && button("silence", IconVolumeOff, onSilence)}
    </Group>
  );
}

type Doing = "edit" | "switch" | "delete";

/** What can be done with a rule or a channel; rules that come with the product stay. */
export function RowMenu({
  row: { name, is_enabled: isOn, is_builtin: isBuiltin },
  onDo,
}: {
  row: { name: string; is_enabled: boolean; is_builtin?: boolean };
  onDo: (what: Doing) => void;
}) {
  const { t } = useTranslation("alerts");
  return (
    <MenuButton
      variant="default"
      size="md"
      label={t("actions_of", { name })}
      icon={<IconDots size={16} aria-hidden />}
      entries={[
        { label: t("common:action.edit"), onClick: () => onDo("edit") },
        { label: t(isOn ? "disable" : "enable"), onClick: () => onDo("switch") },
        ...(isBuiltin ? [] : [{ label: t("common:action.delete"), color: "red", onClick: () => onDo("delete") }]),
      ]}
    />
  );
}
