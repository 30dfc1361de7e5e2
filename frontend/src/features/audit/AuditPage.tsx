import { Code } from "@mantine/core";
import { useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { list } from "@/api/requests";
import { EntryDrawer } from "@/features/audit/EntryDrawer";
import { auditKey, type AuditEntry } from "@/features/audit/queries";
import { VerifyChain } from "@/features/audit/VerifyChain";
import { Instant } from "@/ui/Instant";
import { PageHeader } from "@/ui/PageHeader";
import { TextButton } from "@/ui/buttons";
import { DataTable } from "@/ui/table/DataTable";
import { defineColumns, headers } from "@/ui/table/define";
import type { Filter } from "@/ui/table/types";

export default function AuditPage() {
  const { t } = useTranslation("audit");
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
        column("actor", (row) => row.actor),
        column("action", (row) => <Code>{row.action}</Code>),
        column("target", (row) => <span className="break">{row.target}</span>),
        column("reason", (row) => <span className="break">{row.reason}</span>),
        column("address", { isHiddenAtFirst: true }, (row) => row.address),
        column("request_id", { header: t("column.request"), isHiddenAtFirst: true }, (row) => (
          <Code>{row.request_id}</Code>
        )),
      ]),
    [t],
  );
  const filters = useMemo<Filter[]>(
    () => [
      { kind: "search", name: "search", label: t("filter.search") },
      { kind: "text", name: "actor", label: t("filter.actor") },
      { kind: "text", name: "action", label: t("filter.action"), placeholder: "subject." },
      { kind: "text", name: "target", label: t("filter.target") },
      { kind: "instant", name: "since", label: t("filter.since") },
      { kind: "instant", name: "until", label: t("filter.until") },
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
      <EntryDrawer entry={open} onClose={() => setOpen(null)} />
    </>
  );
}
