import { Group, Skeleton, Stack, Text, Timeline } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "@/i18n/useTranslation";
import { useMay } from "@/api/me";
import { Actions, StateBadges } from "@/features/alerts/Cells";
import { Cause, SeverityBadge, Target, Value } from "@/shared/alerts/AlertCells";
import type { Alert } from "@/api/alerts";
import { alertOptions, type AlertDetail } from "@/features/alerts/queries";
import { timeline, type Step } from "@/features/alerts/timeline";
import { conditionText } from "@/shared/alerts/words";
import { FactTable, type Fact } from "@/ui/page/FactTable";
import { Instant } from "@/ui/measure/Instant";
import { AddressDrawer } from "@/ui/dialog/SideDrawer";
import { loaded } from "@/ui/page/loaded";
import { useLanguage } from "@/ui/preferences";
import { ReportButton } from "@/shared/report/ReportButton";
import { useRuleName } from "@/shared/ruleNames";
import { Sent } from "@/ui/Sent";

const COLOURS: Record<Step["kind"], string> = {
  began: "yellow",
  fired: "red",
  acknowledged: "blue",
  notified: "gray",
  given_up: "orange",
  waiting: "gray",
  ended: "teal",
};

interface Props {
  onAcknowledge: (alert: Alert) => void;
  onSilence: (alert: Alert) => void;
}

/** The alert that the address names: its state, its timeline and its notifications. */
export function AlertDrawer(actions: Props) {
  const { t } = useTranslation("alerts");
  return (
    <AddressDrawer name="alert" title={t("detail")}>
      {(alert) => <Whole alert={alert} {...actions} />}
    </AddressDrawer>
  );
}

function Whole({ alert, onAcknowledge, onSilence }: Props & { alert: string }) {
  const may = useMay();
  const [data, instead] = loaded(useQuery(alertOptions(alert)), <Skeleton height={240} />);
  if (!data) return instead;
  return (
    <Stack>
      <Group gap="xs">
        <SeverityBadge severity={data.severity} />
        <StateBadges alert={data} />
      </Group>
      <Facts alert={data} />
      {may("change_alerts") && (
        <Actions alert={data} onAcknowledge={() => onAcknowledge(data)} onSilence={() => onSilence(data)} />
      )}
      <Life alert={data} />
      <Group>
        <ReportButton span={() => spanOf(data)} />
      </Group>
    </Stack>
  );
}

const AROUND_MS = 600_000;

/** An alert's life and what happened shortly before and after it. */
function spanOf({ since, resolved_at: ended }: AlertDetail) {
  const around = (ms: number, more: number) => new Date(Math.min(ms + more, Date.now())).toISOString();
  return {
    from: around(Date.parse(since), -AROUND_MS),
    to: around(ended ? Date.parse(ended) : Date.now(), AROUND_MS),
  };
}

function Facts({ alert }: { alert: AlertDetail }) {
  const { t } = useTranslation("alerts");
  const ruleName = useRuleName();
  const language = useLanguage();
  const facts: Fact[] = [
    [
      t("column.rule"),
      alert.rule_id === null ? t("rule_deleted", { rule: ruleName(alert.rule) }) : ruleName(alert.rule),
    ],
    [t("column.target"), <Target key="target" kind={alert.kind} target={alert.target} />],
    [t("column.kind"), t(`kind.${alert.kind}`)],
    [t("fires_when"), conditionText(alert.kind, alert.threshold, language, t)],
    [t("column.value"), <Value key="value" alert={alert} />],
    ...(alert.why ? [[t("cause"), <Cause key="cause" alert={alert} />] as const] : []),
    [t("column.owner"), alert.owner ?? "—"],
    [t("acknowledged"), alert.acknowledged_by ?? t("filter.not_acknowledged")],
    [t("last_seen"), <Instant key="seen" at={alert.last_seen_at} relative />],
  ];
  return <FactTable facts={facts} width={150} />;
}

function Life({ alert }: { alert: AlertDetail }) {
  const { t } = useTranslation("alerts");
  const steps = timeline(alert);
  const title = (step: Step) => {
    if (step.kind === "ended") return t(`resolution.${alert.resolution ?? "cleared"}`);
    if (!step.channel) return t(`timeline.${step.kind}`, { by: alert.acknowledged_by });
    return t(`timeline.${step.kind}`, { channel: step.channel, event: t(`event.${step.event ?? "firing"}`) });
  };
  return (
    <>
      <Text component="h3" fw={600}>
        {t("timeline.title")}
      </Text>
      <Timeline active={steps.length} bulletSize={14} lineWidth={2}>
        {steps.map((step) => (
          <Timeline.Item
            key={`${step.kind} ${step.channel ?? ""} ${step.event ?? ""}`}
            color={COLOURS[step.kind]}
            title={title(step)}
            data-step={step.kind}
          >
            <Text size="sm" c="dimmed">
              <Instant at={step.at} />
              {step.nextAt && (
                <>
                  {" · "}
                  {t("timeline.next")} <Instant at={step.nextAt} relative />
                </>
              )}
              {step.attempts !== undefined &&
                step.attempts > 1 &&
                ` · ${t("timeline.attempts", { count: step.attempts })}`}
            </Text>
            {step.text && (
              <Text size="sm" className="break">
                {step.kind === "acknowledged" ? step.text : <Sent text={step.text} />}
              </Text>
            )}
          </Timeline.Item>
        ))}
      </Timeline>
      {alert.state !== "resolved" && alert.notifications.length === 0 && (
        <Text size="sm" c="dimmed">
          {t(alert.is_silenced ? "told_silenced" : "not_sent")}
        </Text>
      )}
    </>
  );
}
