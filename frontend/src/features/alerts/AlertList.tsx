import { Anchor } from "@mantine/core";
import { useCallback, useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { useMay } from "@/api/me";
import { AcknowledgeDialog } from "@/features/alerts/AcknowledgeDialog";
import { Actions } from "@/features/alerts/Actions";
import { AlertDrawer } from "@/features/alerts/AlertDrawer";
import { SeverityBadge, StateBadges } from "@/features/alerts/Badges";
import { KINDS, SEVERITIES } from "@/features/alerts/kinds";
import { alertsKey, loadAlerts, REFRESH_MS, type Alert } from "@/features/alerts/queries";
import { SilenceDialog } from "@/features/alerts/SilenceDialog";
import { literal } from "@/features/alerts/place";
import { Target } from "@/features/alerts/Target";
import { Value } from "@/features/alerts/Value";
import { Instant } from "@/ui/Instant";
import { useRuleName } from "@/ui/ruleNames";
import { DataTable } from "@/ui/table/DataTable";
import type { Column, Filter } from "@/ui/table/types";
import { Teach } from "@/ui/Teach";
import { useUrlState } from "@/ui/urlState";

/** Open alerts first, then those that ended, the newest of each first. */
export function AlertList() {
  const { t } = useTranslation("alerts");
  const ruleName = useRuleName();
  const may = useMay();
  const canAct = may("change_alerts");
  const [search, change] = useUrlState();
  const [acknowledging, setAcknowledging] = useState<Alert | null>(null);
  const [silencing, setSilencing] = useState<Alert | null>(null);
  const open = useCallback((alert: string) => change({ alert }, true), [change]);
  const columns = useMemo<Column<Alert>[]>(
    () => [
      {
        id: "severity",
        card: "fact",
        header: t("column.severity"),
        cell: (row) => <SeverityBadge severity={row.severity} />,
      },
      {
        id: "state",
        card: "state",
        header: t("column.state"),
        sort: "state",
        cell: (row) => <StateBadges alert={row} />,
      },
      {
        id: "rule",
        header: t("column.rule"),
        sort: "rule",
        isFixed: true,
        cell: (row) => (
          <Anchor component="button" type="button" size="sm" ta="left" miw={150} onClick={() => open(row.id)}>
            {ruleName(row.rule)}
          </Anchor>
        ),
      },
      {
        id: "target",
        card: "line",
        header: t("column.target"),
        sort: "target",
        cell: (row) => <Target kind={row.kind} target={row.target} />,
      },
      {
        id: "value",
        card: "fact",
        header: t("column.value"),
        sort: "value",
        align: "right",
        cell: (row) => <Value alert={row} />,
      },
      {
        id: "since",
        card: "fact",
        header: t("column.since"),
        sort: "since",
        cell: (row) => <Instant at={row.since} relative />,
      },
      {
        id: "resolved_at",
        header: t("column.ended"),
        sort: "resolved_at",
        isHiddenAtFirst: true,
        cell: (row) => (row.resolved_at ? <Instant at={row.resolved_at} relative /> : "—"),
      },
      {
        id: "acknowledged_by",
        header: t("column.acknowledged_by"),
        cell: (row) => <span className="break">{row.acknowledged_by ?? "—"}</span>,
      },
      {
        id: "owner",
        header: t("column.owner"),
        sort: "owner",
        isHiddenAtFirst: true,
        cell: (row) => row.owner ?? "—",
      },
      ...(canAct
        ? [
            {
              id: "action",
              card: "action" as const,
              header: t("column.action"),
              cell: (row: Alert) => (
                <Actions alert={row} onAcknowledge={() => setAcknowledging(row)} onSilence={() => setSilencing(row)} />
              ),
            },
          ]
        : []),
    ],
    [t, ruleName, open, canAct],
  );
  const filters = useMemo<Filter[]>(
    () => [
      { kind: "search", name: "search", label: t("filter.alerts") },
      {
        kind: "select",
        name: "is_open",
        label: t("column.state"),
        options: [
          { value: "true", label: t("filter.open") },
          { value: "false", label: t("filter.ended") },
        ],
      },
      {
        kind: "select",
        name: "severity",
        label: t("column.severity"),
        options: SEVERITIES.map((value) => ({ value, label: t(`severity.${value}`) })),
      },
      {
        kind: "select",
        name: "kind",
        label: t("column.kind"),
        options: KINDS.map((value) => ({ value, label: t(`kind.${value}`) })),
      },
      {
        kind: "select",
        name: "is_acknowledged",
        label: t("acknowledged"),
        options: [
          { value: "false", label: t("filter.by_nobody") },
          { value: "true", label: t("filter.by_somebody") },
        ],
      },
    ],
    [t],
  );
  return (
    <>
      <DataTable
        label={t("tab.alerts")}
        queryKey={[...alertsKey, "alerts"]}
        load={loadAlerts}
        columns={columns}
        filters={filters}
        rowKey={(row) => row.id}
        download="/api/v1/alerts/"
        refetchMs={REFRESH_MS}
        empty={<Teach title={t("empty.alerts")}>{t("empty.alerts_text")}</Teach>}
      />
      <AlertDrawer
        alert={search.alert}
        onClose={() => change({ alert: undefined })}
        onAcknowledge={setAcknowledging}
        onSilence={setSilencing}
      />
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
