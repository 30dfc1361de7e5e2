import { Stack, Text } from "@mantine/core";
import { IconDots } from "@tabler/icons-react";
import { useMemo, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { useMay } from "@/api/me";
import { list } from "@/api/requests";
import { Counted, LastError, Leader, Oldest, Rate, StateBadge, useAddress } from "@/features/outbox/Numbers";
import { KINDS, outboxKey, REFRESH_MS, type Database } from "@/features/outbox/queries";
import { Teach } from "@/shared/Teach";
import { whenDrawn } from "@/ui/dialog/whenOpened";
import { Instant } from "@/ui/measure/Instant";
import { TeamLink } from "@/ui/links/links";
import { LinkTo } from "@/ui/links/LinkTo";
import { CreateButton } from "@/ui/menu/buttons";
import { MenuButton } from "@/ui/menu/MenuButton";
import { PageHeader } from "@/ui/page/PageHeader";
import { DataTable } from "@/ui/table/DataTable";
import { choice, defineColumns, headers } from "@/ui/table/define";
import type { Filter } from "@/ui/table/types";

const DatabaseDialog = whenDrawn(async () => (await import("@/features/outbox/DatabaseDialog")).DatabaseDialog);
const TestDialog = whenDrawn(async () => (await import("@/features/outbox/TestDialog")).TestDialog);
const SwitchDialog = whenDrawn(async () => (await import("@/features/outbox/Dialogs")).SwitchDialog);
const DeleteDialog = whenDrawn(async () => (await import("@/features/outbox/Dialogs")).DeleteDialog);

type Doing = { what: "edit" | "switch" | "delete" | "test"; row: Database } | { what: "register" } | null;

/** The registered databases: what waits in the outbox of each, and which relay sends it. */
export default function OutboxPage() {
  const { t } = useTranslation("outbox");
  const may = useMay();
  const canChange = may("change_cluster");
  const addressOf = useAddress();
  const [doing, setDoing] = useState<Doing>(null);
  const columns = useMemo(
    () =>
      defineColumns<Database>(headers(t), (column) => [
        column("name", { sort: true, isFixed: true }, (row) => (
          <LinkTo to="/outbox/$database" params={{ database: row.id }} className="break">
            {row.name}
          </LinkTo>
        )),
        column("state", { card: "state" }, (row) => <StateBadge row={row} />),
        column("kind", { card: "line", header: t("column.database"), sort: true }, (row) => (
          <Stack gap={0} miw={130}>
            {t(`kind.${row.kind}`)}
            <Text size="xs" c="dimmed" className="nowrap">
              {addressOf(row)}
            </Text>
          </Stack>
        )),
        column("owner", { sort: true }, (row) => (row.owner ? <TeamLink team={row.owner} /> : "—")),
        column("pending", { card: "fact", sort: true, align: "right" }, (row) => <Counted row={row} of="pending" />),
        column("oldest", { card: "fact", sort: "oldest_seconds", align: "right" }, (row) => <Oldest row={row} />),
        column("failed", { card: "fact", sort: true, align: "right" }, (row) => <Failed row={row} />),
        column("rate", { sort: "rows_per_second", align: "right" }, (row) => <Rate row={row} />),
        column("leader", (row) => (
          <Stack gap={0} className="nowrap">
            <Leader row={row} />
            <Text size="xs" c="dimmed">
              {t("column.measured_at")} <Instant at={row.measured_at} relative />
            </Text>
          </Stack>
        )),
        column("last_error", (row) => <LastError row={row} />),
        column("table", { isHiddenAtFirst: true }, (row) => row.table),
        canChange &&
          column("action", { card: "action" }, (row) => (
            <MenuButton
              variant="default"
              size="md"
              label={t("actions_of", { name: row.name })}
              icon={<IconDots size={16} aria-hidden />}
              entries={[
                { label: t("test.action"), onClick: () => setDoing({ what: "test", row }) },
                { label: t("common:action.edit"), onClick: () => setDoing({ what: "edit", row }) },
                {
                  label: t(row.is_enabled ? "disable.action" : "enable.action"),
                  onClick: () => setDoing({ what: "switch", row }),
                },
                { label: t("common:action.delete"), color: "red", onClick: () => setDoing({ what: "delete", row }) },
              ]}
            />
          )),
      ]),
    [t, canChange, addressOf],
  );
  const filters = useMemo<Filter[]>(
    () => [
      { kind: "search", name: "search", label: t("filter.search") },
      choice("kind", t("column.kind"), KINDS, (kind) => t(`kind.${kind}`)),
      choice("is_enabled", t("filter.is_enabled"), { true: t("common:state.yes"), false: t("common:state.no") }),
      choice("has_error", t("filter.has_error"), {
        false: t("common:state.yes"),
        true: t("common:state.no"),
      }),
    ],
    [t],
  );
  const close = () => setDoing(null);
  return (
    <>
      <PageHeader title={t("common:nav.outbox")} description={t("description")} />
      <DataTable
        label={t("databases")}
        queryKey={[...outboxKey, "databases"]}
        load={list("/api/v1/outbox/databases/")}
        columns={columns}
        filters={filters}
        rowKey={(row) => row.id}
        ordering="name"
        download="/api/v1/outbox/databases/"
        refetchMs={REFRESH_MS}
        actions={
          canChange && (
            <CreateButton onClick={() => setDoing({ what: "register" })}>{t("register.action")}</CreateButton>
          )
        }
        empty={
          <Teach
            title={t("empty.title")}
            code="qmq outbox ddl postgresql | psql shop"
            action={<Text c="dimmed">{t(canChange ? "empty.register" : "empty.ask")}</Text>}
          >
            {t("empty.text")}
          </Teach>
        }
      />
      {doing?.what === "register" && <DatabaseDialog row={null} onClose={close} />}
      {doing?.what === "edit" && <DatabaseDialog row={doing.row} onClose={close} />}
      {doing?.what === "test" && <TestDialog row={doing.row} onClose={close} />}
      {doing?.what === "switch" && <SwitchDialog row={doing.row} onClose={close} />}
      {doing?.what === "delete" && <DeleteDialog row={doing.row} onClose={close} />}
    </>
  );
}

/** Rows that wait for an operator stand out, and lead to them. */
function Failed({ row }: { row: Database }) {
  if (!row.failed) return <Counted row={row} of="failed" />;
  return (
    <LinkTo to="/outbox/$database" params={{ database: row.id }} search={{ show: "failed" }} fw={700}>
      <Counted row={row} of="failed" />
    </LinkTo>
  );
}
