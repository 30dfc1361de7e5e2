import { Badge } from "@mantine/core";
import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { LiveDrainTime, LiveGroupNumber } from "@/features/subjects/LiveCells";
import { loadGroupsOf, subjectsKey, type ConsumerGroup } from "@/features/subjects/queries";
import { shellWord } from "@/ui/clientLines";
import { Instant } from "@/ui/Instant";
import { LinkTo } from "@/ui/LinkTo";
import { DataTable } from "@/ui/table/DataTable";
import type { Column, Filter } from "@/ui/table/types";
import { Teach } from "@/ui/Teach";

const FIELDS = [
  { field: "lag", as: "compact" },
  { field: "time_lag_seconds", as: "duration" },
  { field: "backlog", as: "compact" },
  { field: "in_flight", as: "compact" },
  { field: "ack_rate", as: "rate" },
  { field: "consumers_online", as: "count" },
] as const;

/** The consumer groups of a subject with their live numbers. */
export default function GroupsTab({ subject }: { subject: string }) {
  const { t } = useTranslation("subjects");
  const columns = useMemo<Column<ConsumerGroup>[]>(
    () => [
      {
        id: "name",
        header: t("groups.name"),
        sort: "name",
        isFixed: true,
        cell: (row) => (
          <LinkTo
            to="/groups/$subject/$group"
            params={{ subject: row.subject, group: row.name }}
            inherit
          >
            {row.name}
          </LinkTo>
        ),
      },
      ...FIELDS.map(({ field, as }): Column<ConsumerGroup> => ({
        id: field,
        header: t(`groups.${field}`),
        align: "right",
        cell: (row) => <LiveGroupNumber subject={row.subject} group={row.name} field={field} as={as} />,
      })),
      {
        id: "drain_seconds",
        header: t("groups.drain_seconds"),
        align: "right",
        cell: (row) => <LiveDrainTime subject={row.subject} group={row.name} />,
      },
      {
        id: "state",
        header: t("column.state"),
        cell: (row) =>
          row.is_paused ? (
            <Badge color="orange" variant="light" tt="none" title={row.pause_reason}>
              {t("groups.paused")}
            </Badge>
          ) : row.paused_consumers.length > 0 ? (
            <Badge color="orange" variant="light" tt="none" title={row.paused_consumers.join(", ")}>
              {t("groups.some_paused", { count: row.paused_consumers.length })}
            </Badge>
          ) : null,
      },
      {
        id: "first_seen_at",
        header: t("groups.first_seen_at"),
        sort: "first_seen_at",
        isHiddenAtFirst: true,
        cell: (row) => <Instant at={row.first_seen_at} />,
      },
    ],
    [t],
  );
  const filters = useMemo<Filter[]>(() => [{ kind: "search", name: "search", label: t("groups.search") }], [t]);
  const load = useMemo(() => loadGroupsOf(subject), [subject]);
  return (
    <DataTable
      label={t("groups.title")}
      queryKey={[...subjectsKey, "groups", subject]}
      load={load}
      columns={columns}
      filters={filters}
      rowKey={(row) => row.name}
      ordering="name"
      refetchMs={10_000}
      empty={
        <Teach title={t("groups.empty_title")} commands={[`qmq consume ${shellWord(subject)} my-group`]}>
          {t("groups.empty_text")}
        </Teach>
      }
    />
  );
}
