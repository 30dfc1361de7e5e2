import { Badge, Group, Text } from "@mantine/core";
import { memo, useMemo } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import type { Schema } from "@/api/client";
import { list } from "@/api/requests";
import { brokersKey } from "@/features/brokers/queries";
import { Part } from "@/ui/page/Part";
import { SubjectLink, BrokerLink } from "@/ui/links/links";
import { DataTable } from "@/ui/table/DataTable";
import { defineColumns } from "@/ui/table/define";
import type { Filter } from "@/ui/table/types";

const MOVING_REFRESH_MS = 2_000;

/** The subjects that a broker group serves, and which of them come or go. */
export const PlacedSubjects = memo(function PlacedSubjects({ name, isMoving }: { name: string; isMoving: boolean }) {
  const { t } = useTranslation("brokers");
  const columns = useMemo(
    () =>
      defineColumns<Schema<"SubjectRow">>(
        (id) => t(`placed.${id}`),
        (column) => [
          column("name", { header: t("placed.subject"), sort: true, isFixed: true }, (row) => (
            <SubjectLink subject={row.name} />
          )),
          column("phase", (row) => {
            const phase = row.phases[name];
            if (!phase) return t("placed.serves");
            return (
              <Badge variant="light" color="blue" title={t(`placed.hint.${phase}`)}>
                {t(`placed.${phase}`)}
              </Badge>
            );
          }),
          column("others", (row) => (
            <Group gap={8}>
              {row.broker_groups
                .filter((other) => other !== name)
                .map((other) => (
                  <BrokerLink key={other} name={other} />
                ))}
            </Group>
          )),
          column("consumer_groups", { sort: true, align: "right" }, (row) => row.consumer_groups),
          column("owner", { sort: true }, (row) => row.owner ?? "—"),
        ],
      ),
    [t, name],
  );
  const filters = useMemo<Filter[]>(() => [{ kind: "search", name: "search", label: t("placed.search") }], [t]);
  return (
    <Part title={t("column.subjects")}>
      <DataTable
        label={t("column.subjects")}
        queryKey={[...brokersKey, "one", name, "subjects"]}
        load={list("/api/v1/subjects/", { query: { broker_group: name } })}
        columns={columns}
        filters={filters}
        rowKey={(row) => row.name}
        ordering="name"
        download={`/api/v1/subjects/?broker_group=${encodeURIComponent(name)}`}
        refetchMs={isMoving ? MOVING_REFRESH_MS : undefined}
        empty={<Text c="dimmed">{t("placed.none")}</Text>}
      />
    </Part>
  );
});
