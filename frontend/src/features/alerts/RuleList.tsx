import { Badge, Button, Group } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import { useQueryClient } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { useMay } from "@/api/me";
import { SeverityBadge } from "@/features/alerts/Badges";
import { KINDS, SEVERITIES } from "@/features/alerts/kinds";
import { alertsKey, changeRule, deleteRule, loadRules, REFRESH_MS, type Rule } from "@/features/alerts/queries";
import { RuleDialog } from "@/features/alerts/RuleDialog";
import { RowMenu } from "@/features/alerts/RowMenu";
import { clearText, conditionText } from "@/features/alerts/words";
import { duration } from "@/format/times";
import { ChangeDialog } from "@/ui/ChangeDialog";
import { LinkTo } from "@/ui/LinkTo";
import { useLanguage } from "@/ui/preferences";
import { DataTable } from "@/ui/table/DataTable";
import { choice, defineColumns, headers } from "@/ui/table/define";
import type { Filter } from "@/ui/table/types";

type Doing = { what: "edit" | "switch" | "delete"; rule: Rule } | { what: "create" } | null;

/** What is watched for: those that come with the product, and one's own. */
export function RuleList() {
  const { t } = useTranslation("alerts");
  const language = useLanguage();
  const may = useMay();
  const canChange = may("change_alerts");
  const [doing, setDoing] = useState<Doing>(null);
  const columns = useMemo(() => {
    const lasting = (seconds: number) => (seconds ? t("lasting", { time: duration(seconds, language) }) : "");
    return defineColumns<Rule>(headers(t), (column) => [
      column("name", { header: t("column.rule"), sort: true, isFixed: true }, (row) => (
        <Group gap={6}>
          <b>{row.name}</b>
          {row.is_builtin && (
            <Badge variant="default" title={t("rule.builtin_hint")}>
              {t("rule.builtin")}
            </Badge>
          )}
        </Group>
      )),
      column("is_enabled", { header: t("column.state"), sort: true }, (row) => (
        <Badge color={row.is_enabled ? "teal" : "gray"} variant="light">
          {t(row.is_enabled ? "on" : "off")}
        </Badge>
      )),
      column("severity", (row) => <SeverityBadge severity={row.severity} />),
      column("kind", { sort: true }, (row) => t(`kind.${row.kind}`)),
      column("target", (row) => <code className="break">{row.target}</code>),
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
      column("channels", { header: t("column.told") }, (row) => row.channels.join(", ") || t("filter.nobody")),
      column("owner", { sort: true, isHiddenAtFirst: true }, (row) => row.owner ?? "—"),
      column("firing", { align: "right" }, (row) =>
        row.firing > 0 ? (
          <LinkTo
            to="/alerts"
            search={{ tab: "alerts", search: row.name, is_open: "true" }}
            size="sm"
            aria-label={t("firing_of", { count: row.firing, name: row.name })}
          >
            {row.firing}
          </LinkTo>
        ) : (
          0
        ),
      ),
      canChange &&
        column("action", (row) => (
          <RowMenu
            name={row.name}
            items={[
              { label: t("common:action.edit"), run: () => setDoing({ what: "edit", rule: row }) },
              {
                label: t(row.is_enabled ? "disable" : "enable"),
                run: () => setDoing({ what: "switch", rule: row }),
              },
              ...(row.is_builtin
                ? []
                : [
                    {
                      label: t("common:action.delete"),
                      isDangerous: true,
                      run: () => setDoing({ what: "delete", rule: row }),
                    },
                  ]),
            ]}
          />
        )),
    ]);
  }, [t, language, canChange]);
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
        load={loadRules}
        columns={columns}
        filters={filters}
        rowKey={(row) => row.id}
        ordering="name"
        download="/api/v1/alert-rules/"
        refetchMs={REFRESH_MS}
        actions={
          canChange && (
            <Button leftSection={<IconPlus size={16} aria-hidden />} onClick={() => setDoing({ what: "create" })}>
              {t("rule.create")}
            </Button>
          )
        }
      />
      {doing?.what === "create" && <RuleDialog rule={null} onClose={close} />}
      {doing?.what === "edit" && <RuleDialog rule={doing.rule} onClose={close} />}
      {doing?.what === "switch" && <Switch rule={doing.rule} onClose={close} />}
      {doing?.what === "delete" && <Delete rule={doing.rule} onClose={close} />}
    </>
  );
}

function Switch({ rule, onClose }: { rule: Rule; onClose: () => void }) {
  const { t } = useTranslation("alerts");
  const client = useQueryClient();
  const isOn = !rule.is_enabled;
  return (
    <ChangeDialog
      opened
      onClose={onClose}
      title={t(isOn ? "rule.enable" : "rule.disable", { name: rule.name })}
      confirmName={isOn ? undefined : rule.name}
      actionLabel={t(isOn ? "enable" : "disable")}
      doneMessage={t(isOn ? "rule.enabled" : "rule.disabled", { name: rule.name })}
      run={(attempt) => changeRule(rule, { is_enabled: isOn }, attempt)}
      onDone={() => void client.invalidateQueries({ queryKey: alertsKey })}
    />
  );
}

function Delete({ rule, onClose }: { rule: Rule; onClose: () => void }) {
  const { t } = useTranslation("alerts");
  const client = useQueryClient();
  return (
    <ChangeDialog
      opened
      onClose={onClose}
      title={t("rule.delete", { name: rule.name })}
      confirmName={rule.name}
      actionLabel={t("common:action.delete")}
      doneMessage={t("rule.deleted", { name: rule.name })}
      reasonField={false}
      run={(attempt) => deleteRule(rule, attempt)}
      onDone={() => void client.invalidateQueries({ queryKey: alertsKey })}
    />
  );
}
