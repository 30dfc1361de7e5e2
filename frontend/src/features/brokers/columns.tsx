import { Group, Text } from "@mantine/core";
import type { TFunction } from "i18next";
import type { ReactNode } from "react";
import { nodeVerdict, withLive, type GroupView } from "@/features/brokers/topology/cluster";
import { DiskBar, Verdict } from "@/features/brokers/Cells";
import { CopiesBadge, RackBadge } from "@/features/brokers/members/CopiesBadge";
import type { BrokerGroup } from "@/features/brokers/queries";
import { measured, useLive } from "@/live/useLive";
import { Instant } from "@/ui/measure/Instant";
import { BrokerLink } from "@/ui/links/links";
import { Measured } from "@/ui/measure/Measured";
import { defineColumns, headers } from "@/ui/table/define";
import type { Column } from "@/ui/table/types";

/** The list's columns: what operators decided comes of the API, states and numbers live. */
export function columnsOf(t: TFunction<"brokers">): Column<BrokerGroup>[] {
  return defineColumns<BrokerGroup>(headers(t), (column) => [
    column("name", { sort: true, isFixed: true }, (row) => <BrokerLink name={row.name} />),
    column("state", { sort: "reported_state" }, (row) => (
      <Live row={row}>{({ verdict }) => <Verdict verdict={verdict} of="group" />}</Live>
    )),
    column("kind", { sort: true }, (row) => t(`kind.${row.kind}`)),
    column("nodes", { align: "right" }, (row) => (
      <Live row={row}>
        {({ nodes }) => {
          const answering = nodes.filter((node) => !["unmeasured", "unknown"].includes(nodeVerdict(node.numbers)));
          return t("answering", { count: answering.length, all: nodes.length });
        }}
      </Live>
    )),
    column("copies", (row) => (
      <Group gap={4}>
        <CopiesBadge group={row} />
        <RackBadge group={row} />
      </Group>
    )),
    column("subjects", { align: "right" }, (row) => (row.kind === "broker" ? <Measured value={row.subjects} /> : "—")),
    column("rate_in", { align: "right" }, (row) =>
      row.kind === "broker" ? <MasterRate row={row} field="send_rate" /> : "—",
    ),
    column("rate_out", { align: "right" }, (row) => (
      <MasterRate row={row} field={row.kind === "broker" ? "pull_rate" : "delivered_per_second"} />
    )),
    column("disk", (row) => <Live row={row}>{({ master }) => <DiskBar numbers={master?.numbers} />}</Live>),
    column("version", (row) => (
      <Group gap={4}>
        {[...new Set(row.nodes.map((node) => node.version))].map((version) => (
          <span key={version}>{version}</span>
        ))}
      </Group>
    )),
    column("description", (row) => (
      <Text size="sm" className="break">
        {row.description || "—"}
      </Text>
    )),
    column("master", { sort: true, isHiddenAtFirst: true }, (row) => row.master || "—"),
    column("updated_at", { sort: true, isHiddenAtFirst: true }, (row) => <Instant at={row.updated_at} relative />),
  ]);
}

/** A cell that shows something of the live view: it is drawn again with each update, the list is not. */
function Live({ row, children }: { row: BrokerGroup; children: (view: GroupView) => ReactNode }) {
  return children(withLive(row, useLive("/ws/nodes/").state));
}

function MasterRate({ row, field }: { row: BrokerGroup; field: string }) {
  return <Live row={row}>{({ master }) => <Measured {...measured(master?.numbers, field)} as="rate" />}</Live>;
}
