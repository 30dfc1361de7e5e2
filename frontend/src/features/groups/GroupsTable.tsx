import { useMemo } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { list } from "@/api/requests";
import { CreateGroupButton } from "@/features/groups/CreateGroupButton";
import { LiveDrainTime, LiveNumber, LiveState } from "@/features/groups/Cells";
import { groupsKey, type GroupLag } from "@/features/groups/queries";
import { ORDER } from "@/features/groups/summary";
import { consumerProgram, shellWord } from "@/shared/clientLines";
import { SubjectLink, GroupLink } from "@/ui/links/links";
import { DataTable } from "@/ui/table/DataTable";
import { choice, defineColumns, headers } from "@/ui/table/define";
import type { Filter } from "@/ui/table/types";
import { Teach, useClientAddress } from "@/shared/Teach";

/** Numbers that a phone shows too. */
const IN_CARDS: ReadonlySet<string> = new Set(["lag", "time_lag_seconds"]);
/** The numbers of a group, in the order of their columns. */
export const NUMBERS = [
  { field: "lag", as: "count" },
  { field: "time_lag_seconds", as: "duration" },
  { field: "backlog", as: "count" },
  { field: "in_flight", as: "count" },
  { field: "pull_rate", as: "rate" },
  { field: "ack_rate", as: "rate" },
] as const;

/** Columns that say the same in each row of one subject. */
const OF_ALL_SUBJECTS: ReadonlySet<string> = new Set(["subject", "owner"]);

/**
 * Consumer groups with live numbers, of all subjects or of one; the longest time lag first. Rows keep their places
 * while numbers change.
 */
export default function GroupsTable({ subject }: { subject?: string }) {
  const { t } = useTranslation("groups");
  const address = useClientAddress();
  const columns = useMemo(
    () =>
      defineColumns<GroupLag>(headers(t), (column) => [
        column("group", { sort: true, isFixed: true }, ({ subject, group }) => (
          <GroupLink subject={subject} group={group} className="nowrap" />
        )),
        column("subject", { card: "line", sort: true }, ({ subject }) => (
          <SubjectLink subject={subject} className="nowrap" />
        )),
        column("state", { card: "state" }, (row) => <LiveState row={row} />),
        ...NUMBERS.map(({ field, as }) =>
          column(field, { ...(IN_CARDS.has(field) && { card: "fact" }), sort: `-${field}`, align: "right" }, (row) => (
            <LiveNumber row={row} field={field} as={as} />
          )),
        ),
        column("drain_seconds", { card: "fact", sort: true, align: "right" }, (row) => <LiveDrainTime row={row} />),
        column("consumers_online", { sort: true, align: "right" }, (row) => (
          <LiveNumber row={row} field="consumers_online" as="count" />
        )),
        column("retry_lag", { align: "right", isHiddenAtFirst: true }, (row) => (
          <LiveNumber row={row} field="retry_lag" as="count" />
        )),
        column("owner", (row) => row.owner ?? "—"),
      ]),
    [t],
  );
  const shown = useMemo(
    () => (subject ? columns.filter(({ id }) => !OF_ALL_SUBJECTS.has(id)) : columns),
    [columns, subject],
  );
  const filters = useMemo<Filter[]>(
    () => [
      { kind: "search", name: "search", label: t("filter.search") },
      choice("state", t("column.state"), ORDER, (state) => t(`state.${state}`)),
      ...(subject ? [] : [{ kind: "text" as const, name: "owner", label: t("column.owner") }]),
    ],
    [t, subject],
  );
  return (
    <DataTable
      label={t("title")}
      queryKey={subject ? [...groupsKey, "of", subject] : groupsKey}
      load={list("/api/v1/lag/", { query: subject ? { subject } : {} })}
      columns={shown}
      filters={filters}
      rowKey={(row) => `${row.subject}/${row.group}`}
      ordering="-time_lag_seconds"
      {...(subject ? { actions: <CreateGroupButton subject={subject} /> } : { download: "/api/v1/lag/" })}
      empty={
        <Teach
          title={t("empty.title")}
          commands={[`qmq consume ${shellWord(subject ?? "order.paid")} billing`]}
          code={consumerProgram(address, subject ?? "order.paid", "billing")}
        >
          {t("empty.text")}
        </Teach>
      }
    />
  );
}
