import { Badge, Group } from "@mantine/core";
import { useMemo, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { useMay } from "@/api/me";
import { list } from "@/api/requests";
import { EnabledBadge, RowMenu } from "@/features/alerts/Cells";
import { DeleteDialog, SwitchDialog } from "@/features/alerts/Dialogs";
import { alertsKey } from "@/api/alerts";
import { KINDS, REFRESH_MS, SEVERITIES, type Rule } from "@/features/alerts/queries";
import { clearText, conditionText } from "@/shared/alerts/words";
import { duration } from "@/format/times";
import { LinkTo } from "@/ui/links/LinkTo";
import { CreateButton } from "@/ui/menu/buttons";
import { useLanguage } from "@/ui/preferences";
import { SeverityBadge } from "@/shared/alerts/AlertCells";
import { useRuleName } from "@/shared/ruleNames";
import { DataTable } from "@/ui/table/DataTable";
import { choice, defineColumns, headers } from "@/ui/table/define";
import type { Filter } from "@/ui/table/types";
import { whenDrawn } from "@/ui/dialog/whenOpened";

const RuleDialog = whenDrawn(async () => (await import("@/features/alerts/RuleDialog")).RuleDialog);

type Doing = { what: "edit" | "switch" | "delete"; row: Rule } | { what: "create" } | null;

/** What is watched for: those that come with the product, and one's own. */
export function RuleList() {
  const { t } = useTranslation("alerts");
  const ruleName = useRuleName();
  const language = useLanguage();
  const may = useMay();
  const canChange = may("change_alerts");
  const [doing, setDoing] = useState<Doing>(null);
  const columns = useMemo(() => {
    const lasting = (seconds: number) => (seconds ? t("lasting", { time: duration(seconds, language) }) : "");
    return defineColumns<Rule>(headers(t), (column) => [
      column("name", { header: t("column.rule"), sort: true, isFixed: true }, (row) => (
        <Group gap={6}>
          <b>{ruleName(row.name)}</b>
          {row.is_builtin && (
            <Badge variant="default" title={t("alert_pages:rule.builtin_hint")}>
              {t("alert_pages:rule.builtin")}
            </Badge>
          )}
        </Group>
      )),
      column("is_enabled", { card: "state", header: t("column.state"), sort: true }, (row) => (
        <EnabledBadge isOn={row.is_enabled} />
      )),
      column("severity", { card: "fact" }, (row) => <SeverityBadge severity={row.severity} />),
      column("kind", { card: "fact", sort: true }, (row) => t(`kind.${row.kind}`)),
      column("target", { card: "line" }, (row) =>
        row.target === "*" ? t("target_all") : <code className="break">{row.target}</code>,
      ),
      column(
        "fires",
        { header: t("fires_when") },
        (row) => `${conditionText(row.kind, row.threshold, language, t)} ${lasting(row.for_seconds)}`,
      ),
      column(
        "ends",
        { header: t("ends_when") },
        (row) => `${clearText(row.kind, row.clear_threshold, language, t)} ${lasting(row.clear_for_seconds)}`,
      ),
      column("channels", { card: "fact", header: t("column.told") }, (row) => (
        <Group gap={6}>
          {row.channels.join(", ")}
          {!row.is_notifying && (
            <Badge
              color="yellow"
              variant="light"
              tt="none"
              title={t(
                row.channels.length > 0 ? "alert_pages:rule.channels_disabled" : "alert_pages:rule.console_only",
              )}
            >
              {t("filter.not_notified")}
            </Badge>
          )}
        </Group>
      )),
      column("owner", { sort: true, isHiddenAtFirst: true }, (row) => row.owner ?? "—"),
      column("firing", { align: "right" }, (row) =>
        row.firing > 0 ? (
          <LinkTo
            to="/alerts"
            search={{ tab: "alerts", search: row.name, state: "firing" }}
            size="sm"
            aria-label={t("firing_of", { count: row.firing, name: ruleName(row.name) })}
          >
            {row.firing}
          </LinkTo>
        ) : (
          0
        ),
      ),
      canChange &&
        column("action", { card: "action" }, (row) => (
          <RowMenu row={{ ...row, name: ruleName(row.name) }} onDo={(what) => setDoing({ what, row })} />
        )),
    ]);
  }, [t, ruleName, language, canChange]);
  const filters = useMemo<Filter[]>(
    () => [
      { kind: "search", name: "search", label: t("filter.rules") },
      choice("kind", t("column.kind"), KINDS, (value) => t(`kind.${value}`)),
      choice("severity", t("column.severity"), SEVERITIES, (value) => t(`severity.${value}`)),
      choice("is_enabled", t("column.state"), { true: t("on"), false: t("off") }),
    ],
    [t],
  );
  const close = () => setDoing(null);
  return (
    <>
      <DataTable
        label={t("tab.rules")}
        queryKey={[...alertsKey, "rules"]}
        load={list("/api/v1/alert-rules/")}
        columns={columns}
        filters={filters}
        rowKey={(row) => row.id}
        ordering="name"
        download="/api/v1/alert-rules/"
        refetchMs={REFRESH_MS}
        actions={
          canChange && (
            <CreateButton onClick={() => setDoing({ what: "create" })}>{t("alert_pages:rule.create")}</CreateButton>
          )
        }
      />
      {doing?.what === "create" && <RuleDialog rule={null} onClose={close} />}
      {doing?.what === "edit" && <RuleDialog rule={doing.row} onClose={close} />}
      {doing?.what === "switch" && <SwitchDialog kind="rule" row={doing.row} onClose={close} />}
      {doing?.what === "delete" && <DeleteDialog kind="rule" row={doing.row} onClose={close} />}
    </>
  );
}
