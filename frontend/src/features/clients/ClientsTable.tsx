import { Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useMemo } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { list } from "@/api/requests";
import { Address, App, Rate, Subscription, Version } from "@/features/clients/Cells";
import { Differing } from "@/features/clients/Differing";
import { clientsKey, differingOptions, REFRESH_MS, type Client } from "@/features/clients/queries";
import { clientKey } from "@/features/clients/words";
import { producerProgram, shellWord } from "@/shared/clientLines";
import { Teach, useClientAddress } from "@/shared/Teach";
import { GroupLink, SubjectLink } from "@/ui/links/links";
import { DataTable } from "@/ui/table/DataTable";
import { choice, defineColumns, headers } from "@/ui/table/define";
import type { Filter } from "@/ui/table/types";

const ROLES = ["producer", "consumer", "delayed_producer", "delay_node"] as const;
const DIFFERING = ["true"] as const;
const UNSEEN = { visibility: "hidden" } as const;

/** Producers and consumers, of all subjects or of one; those with the highest rate first. */
export default function ClientsTable({ subject }: { subject?: string }) {
  const { t } = useTranslation("clients");
  const address = useClientAddress();
  const { data, isPending } = useQuery(differingOptions(subject));
  const columns = useMemo(
    () =>
      defineColumns<Client>(headers(t), (column) => [
        column("app", { sort: true, isFixed: true }, (row) => <App row={row} />),
        column("role", { card: "state", sort: true }, (row) => <span className="nowrap">{t(`role.${row.role}`)}</span>),
        !subject &&
          column("subject", { card: "line", sort: true }, (row) => (
            <SubjectLink subject={row.subject} className="nowrap" />
          )),
        column("group", { card: "fact", sort: true }, (row) =>
          row.group ? <GroupLink subject={row.subject} group={row.group} className="nowrap" /> : "—",
        ),
        column("rate", { card: "fact", sort: true, align: "right" }, (row) => <Rate row={row} />),
        column("host", { card: "fact", sort: true }, (row) => <Address row={row} />),
        column("connections", { sort: true, align: "right", isHiddenAtFirst: true }, (row) => row.connections),
        column("version", (row) => <Version row={row} />),
        column("subscription", (row) => <Subscription row={row} />),
        column("client_id", { isHiddenAtFirst: true }, (row) => <span className="break">{row.client_id || "—"}</span>),
        column("broker_groups", { isHiddenAtFirst: true }, (row) => row.broker_groups.join(", ") || "—"),
      ]),
    [t, subject],
  );
  const filters = useMemo<Filter[]>(
    () => [
      { kind: "search", name: "search", label: t("filter.search") },
      choice("role", t("column.role"), ROLES, (role) => t(`role.${role}`)),
      choice("differs", t("filter.differs"), DIFFERING, () => t("filter.differing")),
    ],
    [t],
  );
  return (
    // What differs stands above the list, and would move it down.
    <Stack gap="sm" style={isPending ? UNSEEN : undefined}>
      {data && data.differing.length > 0 && <Differing groups={data.differing} />}
      {data && data.left_out > 0 && (
        <Text size="sm" c="dimmed">
          {t("left_out", { count: data.left_out })}
        </Text>
      )}
      <DataTable
        label={t("title")}
        queryKey={clientsKey(subject)}
        load={list("/api/v1/clients/", { query: subject ? { subject } : {} })}
        columns={columns}
        filters={filters}
        rowKey={clientKey}
        ordering="-rate"
        refetchMs={REFRESH_MS}
        {...(subject ? {} : { download: "/api/v1/clients/" })}
        empty={
          <Teach
            title={t("empty.title")}
            commands={[`qmq produce ${shellWord(subject ?? "order.paid")} -p id=1`]}
            code={producerProgram(address, subject ?? "order.paid")}
          >
            {t("empty.text")}
          </Teach>
        }
      />
    </Stack>
  );
}
