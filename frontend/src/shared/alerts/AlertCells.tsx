import { Badge } from "@mantine/core";
import { IconAlertTriangle, IconFlame } from "@tabler/icons-react";
import { useTranslation } from "@/i18n/useTranslation";
import type { Alert, AlertKind } from "@/api/alerts";
import { useLive } from "@/live/useLive";
import { placeOf } from "@/shared/alerts/place";
import { conditionText, isWord, valueText } from "@/shared/alerts/words";
import { useReason } from "@/ui/reasons";
import { LinkTo } from "@/ui/links/LinkTo";
import { Measured } from "@/ui/measure/Measured";
import { useLanguage } from "@/ui/preferences";

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

/** What led to an alert, as it was known when that fired; nothing if it was not. */
export function Cause({ alert: { why } }: { alert: Alert }) {
  const reasonOf = useReason();
  return why && <span className="break">{reasonOf(why, why.text)}</span>;
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
