import { useCallback, useMemo, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { useMay } from "@/api/me";
import { list } from "@/api/requests";
import { AlertDrawer } from "@/features/alerts/AlertDrawer";
import { Actions, StateBadges } from "@/features/alerts/Cells";
import { SeverityBadge, Target, Value } from "@/shared/alerts/AlertCells";
import { AcknowledgeDialog } from "@/features/alerts/Dialogs";
import { alertsKey, type Alert } from "@/api/alerts";
import { KINDS, REFRESH_MS, SEVERITIES, STATES } from "@/features/alerts/queries";
import { literal } from "@/shared/alerts/place";
import { Instant } from "@/ui/measure/Instant";
import { TextButton } from "@/ui/menu/buttons";
import { useRuleName } from "@/shared/ruleNames";
import { DataTable } from "@/ui/table/DataTable";
import { choice, defineColumns, headers } from "@/ui/table/define";
import type { Filter } from "@/ui/table/types";
import { Teach } from "@/shared/Teach";
import { useUrlState } from "@/ui/links/urlState";
import { whenDrawn } from "@/ui/dialog/whenOpened";

const SilenceDialog = whenDrawn(async () => (await import("@/shared/alerts/SilenceDialog")).SilenceDialog);

/** Open alerts first, then those that ended, the newest of each first. */
export function AlertList() {
  const { t } = useTranslation("alerts");
  const ruleName = useRuleName();
  const may = useMay();
  const canAct = may("change_alerts");
  const [, change] = useUrlState();
  const [acknowledging, setAcknowledging] = useState<Alert | null>(null);
  const [silencing, setSilencing] = useState<Alert | null>(null);
  const open = useCallback((alert: string) => change({ alert }, true), [change]);
  const columns = useMemo(
    () =>
      defineColumns<Alert>(headers(t), (column) => [
        column("severity", { card: "fact" }, (row) => <SeverityBadge severity={row.severity} />),
        column("state", { card: "state", sort: true }, (row) => <StateBadges alert={row} />),
        column("rule", { sort: true, isFixed: true }, (row) => (
          <TextButton miw={150} onClick={() => open(row.id)}>
            {ruleName(row.rule)}
          </TextButton>
        )),
        column("target", { card: "line", sort: true }, (row) => <Target kind={row.kind} target={row.target} />),
        column("value", { card: "fact", sort: true, align: "right" }, (row) => <Value alert={row} />),
        column("since", { card: "fact", sort: true }, (row) => <Instant at={row.since} relative />),
        column("resolved_at", { header: t("column.ended"), sort: true, isHiddenAtFirst: true }, (row) =>
          row.resolved_at ? <Instant at={row.resolved_at} relative /> : "—",
        ),
        column("acknowledged_by", (row) => <span className="break">{row.acknowledged_by ?? "—"}</span>),
        column("owner", { sort: true, isHiddenAtFirst: true }, (row) => row.owner ?? "—"),
        canAct &&
          column("action", { card: "action" }, (row) => (
            <Actions alert={row} onAcknowledge={() => setAcknowledging(row)} onSilence={() => setSilencing(row)} />
          )),
      ]),
    [t, ruleName, open, canAct],
  );
  const filters = useMemo<Filter[]>(
    () => [
      { kind: "search", name: "search", label: t("filter.alerts") },
      choice("state", t("column.state"), STATES, (value) => t(`state.${value}`)),
      choice("severity", t("column.severity"), SEVERITIES, (value) => t(`severity.${value}`)),
      choice("kind", t("column.kind"), KINDS, (value) => t(`kind.${value}`)),
      { kind: "text", name: "target", label: t("column.target") },
      choice("is_acknowledged", t("acknowledged"), {
        false: t("filter.not_acknowledged"),
        true: t("filter.acknowledged"),
      }),
    ],
    [t],
  );
  return (
    <>
      <DataTable
        label={t("tab.alerts")}
        queryKey={[...alertsKey, "alerts"]}
        load={list("/api/v1/alerts/")}
        columns={columns}
        filters={filters}
        rowKey={(row) => row.id}
        download="/api/v1/alerts/"
        refetchMs={REFRESH_MS}
        empty={<Teach title={t("alert_pages:empty.alerts")}>{t("alert_pages:empty.alerts_text")}</Teach>}
      />
      <AlertDrawer onAcknowledge={setAcknowledging} onSilence={setSilencing} />
      {acknowledging && <AcknowledgeDialog alert={acknowledging} onClose={() => setAcknowledging(null)} />}
      {silencing && (
        <SilenceDialog
          rule={literal(silencing.rule)}
          target={literal(silencing.target)}
          onClose={() => setSilencing(null)}
        />
      )}
    </>
  );
}
