import { Group, Text } from "@mantine/core";
import type { TFunction } from "i18next";
import { nodeVerdict, withLive } from "@/features/brokers/cluster";
import { DiskBar } from "@/features/brokers/DiskBar";
import type { BrokerGroup } from "@/features/brokers/queries";
import { Verdict } from "@/features/brokers/Verdict";
import type { LiveState } from "@/live/applyDelta";
import { measured } from "@/live/useLive";
import { Instant } from "@/ui/Instant";
import { LinkTo } from "@/ui/LinkTo";
import { Measured } from "@/ui/Measured";
import type { Column } from "@/ui/table/types";

/** The list's columns: what operators decided comes of the API, states and numbers live. */
export function columnsOf(t: TFunction<"brokers">, live: LiveState): Column<BrokerGroup>[] {
  return [
    {
      id: "name",
      header: t("column.name"),
      sort: "name",
      isFixed: true,
      cell: (row) => (
        <LinkTo to="/brokers/$name" params={{ name: row.name }}>
          {row.name}
        </LinkTo>
      ),
    },
    {
      id: "state",
      header: t("column.state"),
      sort: "reported_state",
      cell: (row) => <Verdict verdict={withLive(row, live).verdict} of="group" />,
    },
    { id: "kind", header: t("column.kind"), sort: "kind", cell: (row) => t(`kind.${row.kind}`) },
    {
      id: "nodes",
      header: t("column.nodes"),
      align: "right",
      cell: (row) => {
        const { nodes } = withLive(row, live);
        const answering = nodes.filter((node) => !["unmeasured", "unknown"].includes(nodeVerdict(node.numbers)));
        return t("answering", { count: answering.length, all: nodes.length });
      },
    },
    {
      id: "subjects",
      header: t("column.subjects"),
      align: "right",
      cell: (row) => (row.kind === "broker" ? <Measured value={row.subjects} /> : "—"),
    },
    {
      id: "rate_in",
      header: t("column.rate_in"),
      align: "right",
      cell: (row) =>
        row.kind === "broker" ? (
          <Measured {...measured(withLive(row, live).master?.numbers, "send_rate")} as="rate" />
        ) : (
          "—"
        ),
    },
    {
      id: "rate_out",
      header: t("column.rate_out"),
      align: "right",
      cell: (row) => (
        <Measured
          {...measured(
            withLive(row, live).master?.numbers,
            row.kind === "broker" ? "pull_rate" : "delivered_per_second",
          )}
          as="rate"
        />
      ),
    },
    {
      id: "disk",
      header: t("column.disk"),
      cell: (row) => <DiskBar numbers={withLive(row, live).master?.numbers} />,
    },
    {
      id: "version",
      header: t("column.version"),
      cell: (row) => (
        <Group gap={4}>
          {[...new Set(row.nodes.map((node) => node.version))].map((version) => (
            <span key={version}>{version}</span>
          ))}
        </Group>
      ),
    },
    {
      id: "description",
      header: t("column.description"),
      cell: (row) => (
        <Text size="sm" className="break">
          {row.description || "—"}
        </Text>
      ),
    },
    {
      id: "master",
      header: t("column.master"),
      sort: "master",
      isHiddenAtFirst: true,
      cell: (row) => row.master || "—",
    },
    {
      id: "updated_at",
      header: t("column.updated_at"),
      sort: "updated_at",
      isHiddenAtFirst: true,
      cell: (row) => <Instant at={row.updated_at} relative />,
    },
  ];
}
