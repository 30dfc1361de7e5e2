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
import { useRuleName } from "@/ui/ruleNames";
import { DataTable } from "@/ui/table/DataTable";
import type { Column, Filter } from "@/ui/table/types";

type Doing = { what: "edit" | "switch" | "delete"; rule: Rule } | { what: "create" } | null;

/** What is watched for: those that come with the product, and one's own. */
export function RuleList() {
  const { t } = useTranslation("alerts");
  const ruleName = useRuleName();
  const language = useLanguage();
  const may = useMay();
  const canChange = may("change_alerts");
  const [doing, setDoing] = useState<Doing>(null);
  const columns = useMemo<Column<Rule>[]>(() => {
    const lasting = (seconds: number) => (seconds ? t("lasting", { time: duration(seconds, language) }) : "");
    return [
      {
        id: "name",
        header: t("column.rule"),
        sort: "name",
        isFixed: true,
        cell: (row) => (
          <Group gap={6}>
            <b>{ruleName(row.name)}</b>
            {row.is_builtin && (
              <Badge variant="default" title={t("rule.builtin_hint")}>
                {t("rule.builtin")}
              </Badge>
            )}
          </Group>
        ),
      },
      {
        id: "is_enabled",
        card: "state",
        header: t("column.state"),
        sort: "is_enabled",
        cell: (row) => (
          <Badge color={row.is_enabled ? "teal" : "gray"} variant="light">
            {t(row.is_enabled ? "on" : "off")}
          </Badge>
        ),
      },
      {
        id: "severity",
        card: "fact",
        header: t("column.severity"),
        cell: (row) => <SeverityBadge severity={row.severity} />,
      },
      { id: "kind", card: "fact", header: t("column.kind"), sort: "kind", cell: (row) => t(`kind.${row.kind}`) },
      {
        id: "target",
        card: "line",
        header: t("column.target"),
        cell: (row) => <code className="break">{row.target}</code>,
      },
      {
        id: "fires",
        header: t("fires_when"),
        cell: (row) => `${conditionText(row.kind, row.threshold, language, t)} ${lasting(row.for_seconds)}`,
      },
      {
        id: "ends",
        header: t("ends_when"),
        cell: (row) => `${clearText(row.kind, row.clear_threshold, language, t)} ${lasting(row.clear_for_seconds)}`,
      },
      { id: "channels", header: t("column.told"), cell: (row) => row.channels.join(", ") || t("filter.nobody") },
      { id: "owner", header: t("column.owner"), sort: "owner", isHiddenAtFirst: true, cell: (row) => row.owner ?? "—" },
      {
        id: "firing",
        header: t("column.firing"),
        align: "right",
        cell: (row) =>
          row.firing > 0 ? (
            <LinkTo
              to="/alerts"
              search={{ tab: "alerts", search: row.name, is_open: "true" }}
              size="sm"
              aria-label={t("firing_of", { count: row.firing, name: ruleName(row.name) })}
            >
              {row.firing}
            </LinkTo>
          ) : (
            0
          ),
      },
      ...(canChange
        ? [
            {
              id: "action",
              card: "action" as const,
              header: t("column.action"),
              cell: (row: Rule) => (
                <RowMenu
                  name={ruleName(row.name)}
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
              ),
            },
          ]
        : []),
    ];
  }, [t, ruleName, language, canChange]);
  const filters = useMemo<Filter[]>(
    () => [
      { kind: "search", name: "search", label: t("filter.rules") },
      {
        kind: "select",
        name: "kind",
        label: t("column.kind"),
        options: KINDS.map((value) => ({ value, label: t(`kind.${value}`) })),
      },
      {
        kind: "select",
        name: "severity",
        label: t("column.severity"),
        options: SEVERITIES.map((value) => ({ value, label: t(`severity.${value}`) })),
      },
      {
        kind: "select",
        name: "is_enabled",
        label: t("column.state"),
        options: [
          { value: "true", label: t("on") },
          { value: "false", label: t("off") },
        ],
      },
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
  const ruleName = useRuleName();
  const client = useQueryClient();
  const isOn = !rule.is_enabled;
  return (
    <ChangeDialog
      opened
      onClose={onClose}
      title={t(isOn ? "rule.enable" : "rule.disable", { name: ruleName(rule.name) })}
      confirmName={isOn ? undefined : ruleName(rule.name)}
      actionLabel={t(isOn ? "enable" : "disable")}
      doneMessage={t(isOn ? "rule.enabled" : "rule.disabled", { name: ruleName(rule.name) })}
      run={(attempt) => changeRule(rule, { is_enabled: isOn }, attempt)}
      onDone={() => void client.invalidateQueries({ queryKey: alertsKey })}
    />
  );
}

function Delete({ rule, onClose }: { rule: Rule; onClose: () => void }) {
  const { t } = useTranslation("alerts");
  const ruleName = useRuleName();
  const client = useQueryClient();
  return (
    <ChangeDialog
      opened
      onClose={onClose}
      title={t("rule.delete", { name: ruleName(rule.name) })}
      confirmName={ruleName(rule.name)}
      actionLabel={t("common:action.delete")}
      doneMessage={t("rule.deleted", { name: ruleName(rule.name) })}
      reasonField={false}
      run={(attempt) => deleteRule(rule, attempt)}
      onDone={() => void client.invalidateQueries({ queryKey: alertsKey })}
    />
  );
}
