import { Badge, Stack, Text } from "@mantine/core";
import { useMemo } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { eventsKey, type Event } from "@/api/events";
import { list } from "@/api/requests";
import { ReportButton } from "@/shared/report/ReportButton";
import { EventSentence, SEVERITY_COLOURS } from "@/shared/EventList";
import { useUrlState, type Search } from "@/ui/links/urlState";
import { Instant } from "@/ui/measure/Instant";
import { PageHeader } from "@/ui/page/PageHeader";
import { DataTable } from "@/ui/table/DataTable";
import { defineColumns } from "@/ui/table/define";
import type { Filter } from "@/ui/table/types";

const KINDS = [
  "alert_fired",
  "alert_resolved",
  "failover",
  "switch_over",
  "in_sync",
  "members",
  "state",
  "drain",
  "reset",
  "unreachable",
  "reachable",
  "restart",
  "job",
  "deployment",
  "change",
] as const satisfies readonly Event["kind"][];
const SEVERITIES = ["critical", "warning", "info"] as const satisfies readonly Event["severity"][];
const REFRESH_MS = 3_000;

const HOUR_MS = 3_600_000;

/** The span that the list shows, else the last hour. */
function offered({ since, until }: Search) {
  const to = until ?? new Date().toISOString();
  return { from: since ?? new Date(Date.parse(to) - HOUR_MS).toISOString(), to };
}

/** What happened, newest first, of all sources. */
export default function EventsPage() {
  const { t } = useTranslation("events");
  const [search] = useUrlState();
  const columns = useMemo(
    () =>
      defineColumns<Event>(
        (id) => t(`column.${id}`),
        (column) => [
          column("at", { isFixed: true }, (row) => <Instant at={row.at} />),
          column("severity", { card: "state" }, (row) => (
            <Badge variant="light" color={SEVERITY_COLOURS[row.severity]} tt="none" data-severity={row.severity}>
              {t(`severity.${row.severity}`)}
            </Badge>
          )),
          column("what", { card: "line" }, (row) => (
            <span data-event={row.kind}>
              <EventSentence event={row} />
            </span>
          )),
          column("kind", { card: "fact" }, (row) => t(`kind.${row.kind}`)),
          column("actor", { isHiddenAtFirst: true }, (row) => row.actor ?? "—"),
        ],
      ),
    [t],
  );
  const filters = useMemo<Filter[]>(
    () => [
      {
        kind: "select",
        name: "kind",
        label: t("filter.kind"),
        options: KINDS.map((value) => ({ value, label: t(`kind.${value}`) })),
      },
      {
        kind: "select",
        name: "severity",
        label: t("filter.severity"),
        options: SEVERITIES.map((value) => ({ value, label: t(`severity.${value}`) })),
      },
      { kind: "text", name: "subject", label: t("filter.subject") },
      { kind: "text", name: "group", label: t("filter.group") },
      { kind: "text", name: "broker_group", label: t("filter.broker_group") },
      { kind: "instant", name: "since", label: t("filter.since"), direction: "past" },
      { kind: "instant", name: "until", label: t("filter.until"), direction: "past" },
    ],
    [t],
  );
  return (
    <>
      <PageHeader title={t("title")} description={t("about")} actions={<ReportButton span={() => offered(search)} />} />
      <DataTable
        label={t("title")}
        queryKey={[...eventsKey, "list"]}
        load={list("/api/v1/events/")}
        columns={columns}
        filters={filters}
        rowKey={(row) => row.id}
        download="/api/v1/events/"
        refetchMs={REFRESH_MS}
        empty={
          <Stack gap="xs" align="center" p="xl">
            <Text fw={600}>{t("empty.title")}</Text>
            <Text c="dimmed" ta="center">
              {t("empty.text")}
            </Text>
          </Stack>
        }
      />
    </>
  );
}
