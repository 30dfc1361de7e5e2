import { Badge, Text } from "@mantine/core";
import { IconVolumeOff } from "@tabler/icons-react";
import { memo, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import type { Alert } from "@/api/alerts";
import { useMay } from "@/api/me";
import type { Overview } from "@/features/overview/queries";
import { Cause, SeverityBadge, Target, Value } from "@/shared/alerts/AlertCells";
import { literal } from "@/shared/alerts/place";
import { useRuleName } from "@/shared/ruleNames";
import { whenDrawn } from "@/ui/dialog/whenOpened";
import { LinkTo } from "@/ui/links/LinkTo";
import { Instant } from "@/ui/measure/Instant";
import { IconButton } from "@/ui/menu/buttons";

const SilenceDialog = whenDrawn(async () => (await import("@/shared/alerts/SilenceDialog")).SilenceDialog);

/** Alerts that are named; a link leads to the others. */
const SHOWN = 4;

/** The firing alerts by name, critical ones first: since when, how bad, whose, the page that helps, and "silence". */
export const FiringAlerts = memo(function FiringAlerts({
  alerts,
  firing,
}: {
  alerts: readonly Alert[];
  firing: Overview["alerts_firing"];
}) {
  const { t } = useTranslation("overview");
  const [silencing, setSilencing] = useState<Alert | null>(null);
  const more = Object.values(firing).reduce((sum, count) => sum + count, 0) - Math.min(alerts.length, SHOWN);
  return (
    <>
      {alerts.slice(0, SHOWN).map((alert) => (
        <AlertLine key={alert.id} alert={alert} onSilence={() => setSilencing(alert)} />
      ))}
      {more > 0 && (
        <LinkTo to="/alerts" search={{ state: "firing" }} size="sm">
          {t("more_alerts", { count: more })}
        </LinkTo>
      )}
      {silencing && (
        <SilenceDialog
          rule={literal(silencing.rule)}
          target={literal(silencing.target)}
          onClose={() => setSilencing(null)}
        />
      )}
    </>
  );
});

function AlertLine({ alert, onSilence }: { alert: Alert; onSilence: () => void }) {
  const { t } = useTranslation("alerts");
  const ruleName = useRuleName();
  const may = useMay();
  return (
    <div className="alert-line" data-alert={alert.id} data-severity={alert.severity}>
      <SeverityBadge severity={alert.severity} />
      <div>
        <LinkTo to="/alerts" search={{ alert: alert.id }} size="sm" fw={600} c="inherit">
          {ruleName(alert.rule)}
        </LinkTo>
        {" · "}
        <Target kind={alert.kind} target={alert.target} />
        {alert.why && (
          <Text size="xs" component="div" data-cause={alert.why.code}>
            <Cause alert={alert} />
          </Text>
        )}
        <Text size="xs" c="dimmed" component="div">
          <Value alert={alert} />
          {" · "}
          {t("since")} <Instant at={alert.since} relative />
          {" · "}
          {alert.owner ? t("owned_by", { owner: alert.owner }) : t("unowned")}
        </Text>
      </div>
      {alert.is_silenced ? (
        <Badge color="gray" variant="light">
          {t("silenced")}
        </Badge>
      ) : (
        may("change_alerts") && (
          <IconButton
            size="md"
            iconSize={16}
            icon={IconVolumeOff}
            hint={t("silence.action")}
            label={t("silence.of", { rule: alert.rule, target: alert.target })}
            onClick={onSilence}
          />
        )
      )}
    </div>
  );
}
