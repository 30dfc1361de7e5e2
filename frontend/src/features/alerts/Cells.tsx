import { Badge, Group } from "@mantine/core";
import { IconAlertTriangle, IconCheck, IconDots, IconFlame, IconVolumeOff, type Icon } from "@tabler/icons-react";
import { useTranslation } from "react-i18next";
import { placeOf } from "@/features/alerts/place";
import type { Alert, AlertKind } from "@/features/alerts/queries";
import { conditionText, isWord, valueText } from "@/features/alerts/words";
import { useLive } from "@/live/useLive";
import { IconButton } from "@/ui/menu/buttons";
import { LinkTo } from "@/ui/links/LinkTo";
import { Measured } from "@/ui/measure/Measured";
import { MenuButton } from "@/ui/menu/MenuButton";
import { useLanguage } from "@/ui/preferences";

const STATES = { firing: "red", pending: "yellow", resolved: "teal" } as const;

/** How bad, by word, sign and colour. */
export function SeverityBadge({ severity }: { severity: Alert["severity"] }) {
  const { t } = useTranslation("alerts");
  const isCritical = severity === "critical";
  const Sign = isCritical ? IconFlame : IconAlertTriangle;
  return (
    <Badge
      color={isCritical ? "red" : "yellow"}
      variant="light"
      leftSection={<Sign size={12} aria-hidden />}
      data-severity={severity}
    >
      {t(`severity.${severity}`)}
    </Badge>
  );
}

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

/** What an alert is about, and the way to it. */
export function Target({ kind, target }: { kind: AlertKind; target: string }) {
  const { state } = useLive("/ws/nodes/");
  const place = placeOf(kind, target, state);
  if (!place) return <span className="break">{target}</span>;
  return (
    <LinkTo {...place} size="sm" className="break" display="inline-block" miw={160}>
      {target}
    </LinkTo>
  );
}

/** The newest value of an open alert, or the one that an ended alert fired with, beside what it may be at most. */
export function Value({ alert }: { alert: Alert }) {
  const { t } = useTranslation("alerts");
  const language = useLanguage();
  const value = alert.state === "resolved" ? alert.value : alert.last_value;
  const condition = conditionText(alert.kind, alert.threshold, language, t);
  if (value === null) return <Measured value={null} reason={alert.reason} />;
  const text = valueText(alert.kind, value, language, t);
  if (isWord(alert.kind)) return <>{text}</>;
  return (
    <span className="nowrap">
      <b>{text}</b> ({condition}){alert.retries ? <> · {t("retries", { count: alert.retries })}</> : null}
    </span>
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
