import { Code, Stack, Text } from "@mantine/core";
import { useMemo, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { list } from "@/api/requests";
import { diff, type Difference } from "@/features/audit/diff";
import { auditKey, type AuditEntry } from "@/features/audit/queries";
import { VerifyChain } from "@/features/audit/VerifyChain";
import { TextButton } from "@/ui/menu/buttons";
import { FactTable, type Fact } from "@/ui/page/FactTable";
import { Instant } from "@/ui/measure/Instant";
import { PageHeader } from "@/ui/page/PageHeader";
import { useRecordedReason } from "@/ui/reasons";
import { SideDrawer } from "@/ui/dialog/SideDrawer";
import { DataTable } from "@/ui/table/DataTable";
import { PlainTable } from "@/ui/table/PlainTable";
import { defineColumns, headers } from "@/ui/table/define";
import type { Filter } from "@/ui/table/types";
import { Sent } from "@/ui/Sent";

export default function AuditPage() {
  const { t } = useTranslation("audit");
  const reasonOf = useRecordedReason();
  const [open, setOpen] = useState<AuditEntry | null>(null);
  const columns = useMemo(
    () =>
      defineColumns<AuditEntry>(headers(t), (column) => [
        column("at", { isFixed: true }, (row) => (
          <TextButton onClick={() => setOpen(row)}>
            <Instant at={row.at} />
            <span className="sr-only">{t("open", { id: row.id })}</span>
          </TextButton>
        )),
        column("actor", (row) => <Sent text={row.actor} />),
        column("action", (row) => <Code>{row.action}</Code>),
        column("target", { card: "line" }, (row) => <span className="break">{row.target}</span>),
        column("reason", (row) => <span className="break">{reasonOf(row) || "—"}</span>),
        column("address", { isHiddenAtFirst: true }, (row) => row.address),
        column("request_id", { header: t("column.request"), isHiddenAtFirst: true }, (row) => (
          <Code>{row.request_id}</Code>
        )),
      ]),
    [t, reasonOf],
  );
  const filters = useMemo<Filter[]>(
    () => [
      { kind: "search", name: "search", label: t("filter.search") },
      { kind: "text", name: "actor", label: t("filter.actor") },
      { kind: "text", name: "action", label: t("filter.action") },
      { kind: "text", name: "target", label: t("filter.target") },
      { kind: "instant", name: "since", label: t("filter.since"), direction: "past" },
      { kind: "instant", name: "until", label: t("filter.until"), direction: "past" },
    ],
    [t],
  );
  return (
    <>
      <PageHeader title={t("title")} description={t("about")} actions={<VerifyChain />} />
      <DataTable
        label={t("title")}
        queryKey={auditKey}
        load={list("/api/v1/audit/")}
        columns={columns}
        filters={filters}
        rowKey={(row) => row.id}
        download="/api/v1/audit/"
      />
      <SideDrawer opened={open !== null} onClose={() => setOpen(null)} title={open?.action}>
        {open && <Entry entry={open} />}
      </SideDrawer>
    </>
  );
}

/** One entry whole: who, when, from where, and each field that changed. */
function Entry({ entry }: { entry: AuditEntry }) {
  const { t } = useTranslation("audit");
  const reasonOf = useRecordedReason();
  // The reason is a fact of the entry, although the metaserver records it beside what changed.
  const changes = diff(entry.before, entry.after).filter(({ name }) => name !== "why" || !entry.why);
  const facts: Fact[] = [
    [t("column.at"), <Instant key="at" at={entry.at} withMillis />],
    [t("column.actor"), <Sent key="actor" text={entry.actor} />],
    [t("column.target"), entry.target],
    [t("column.reason"), reasonOf(entry) || "—"],
    [t("column.address"), entry.address || "—"],
    [t("column.request"), entry.request_id || "—"],
    [t("column.client_request"), entry.client_request_id ?? "—"],
    [t("column.digest"), entry.digest],
  ];
  return (
    <Stack>
      <FactTable facts={facts} />
      <Text fw={600} component="h3">
        {t("changes")}
      </Text>
      {changes.length === 0 ? (
        <Text c="dimmed">{t("no_changes")}</Text>
      ) : (
        <PlainTable
          label={t("changes")}
          withTableBorder
          columns={defineColumns<Difference>(
            (id) => t(id),
            (column) => [
              column("field", { isFixed: true }, ({ name }) => t(`common:field.${name}`, { defaultValue: name })),
              column("before", ({ before }) => (before === null ? "—" : <Code className="break">{before}</Code>)),
              column("after", ({ after }) => (after === null ? "—" : <Code className="break">{after}</Code>)),
            ],
          )}
          rows={changes}
          rowKey={({ name }) => name}
          minWidth={0}
        />
      )}
    </Stack>
  );
}
