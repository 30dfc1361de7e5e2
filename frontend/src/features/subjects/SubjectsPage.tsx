import { Anchor, Badge, Group } from "@mantine/core";
import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import { loadSubjects, subjectsKey, type Subject } from "@/features/subjects/queries";
import { useLive, lagPath, measured } from "@/live/useLive";
import { Instant } from "@/ui/Instant";
import { LinkTo } from "@/ui/LinkTo";
import { LiveBadge } from "@/ui/LiveBadge";
import { Measured } from "@/ui/Measured";
import { PageHeader } from "@/ui/PageHeader";
import { DataTable } from "@/ui/table/DataTable";
import type { Column, Filter } from "@/ui/table/types";
import { Teach } from "@/ui/Teach";

const FIRST_SUBJECT = `async with Producer("http://META/meta/address", app="shop") as producer:
    await producer.send("order.paid", b"{}")`;

export default function SubjectsPage() {
  const { t } = useTranslation("subjects");
  const live = useLive(lagPath());
  const rates = live.state.subjects;
  const columns = useMemo<Column<Subject>[]>(
    () => [
      {
        id: "name",
        header: t("column.name"),
        sort: "name",
        isFixed: true,
        cell: (row) => (
          <Anchor component={LinkTo} to="/subjects/$subject" params={{ subject: row.name } as never}>
            {row.name}
          </Anchor>
        ),
      },
      {
        id: "send_rate",
        header: t("column.send_rate"),
        align: "right",
        cell: (row) => <Measured {...measured(rates?.[row.name], "send_rate")} as="rate" />,
      },
      { id: "owner", header: t("column.owner"), cell: (row) => row.owner ?? "—" },
      {
        id: "tags",
        header: t("column.tags"),
        cell: (row) => (
          <Group gap={4}>
            {row.tags?.map((tag) => (
              <Badge key={tag} variant="light" tt="none">
                {tag}
              </Badge>
            ))}
          </Group>
        ),
      },
      { id: "updated_at", header: t("column.updated_at"), cell: (row) => <Instant at={row.updated_at} relative /> },
    ],
    [t, rates],
  );
  const filters = useMemo<Filter[]>(() => [{ kind: "search", name: "search", label: t("filter.search") }], [t]);
  return (
    <>
      <PageHeader title={t("title")} badges={<LiveBadge view={live} />} />
      <DataTable
        label={t("title")}
        queryKey={subjectsKey}
        load={loadSubjects}
        columns={columns}
        filters={filters}
        rowKey={(row) => row.name}
        ordering="name"
        download="/api/v1/subjects/"
        empty={
          <Teach title={t("empty.title")} code={FIRST_SUBJECT}>
            {t("empty.text")}
          </Teach>
        }
      />
    </>
  );
}
