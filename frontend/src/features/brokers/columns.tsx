import { Group, Text } from "@mantine/core";
import type { TFunction } from "i18next";
import { nodeVerdict, withLive } from "@/features/brokers/cluster";
import { DiskBar, Verdict } from "@/features/brokers/Cells";
import type { BrokerGroup } from "@/features/brokers/queries";
import type { LiveState } from "@/live/applyDelta";
import { measured } from "@/live/useLive";
import { Instant } from "@/ui/Instant";
import { BrokerLink } from "@/ui/links";
import { Measured } from "@/ui/Measured";
import { defineColumns, headers } from "@/ui/table/define";
import type { Column } from "@/ui/table/types";

/** The list's columns: what operators decided comes of the API, states and numbers live. */
export function columnsOf(t: TFunction<"brokers">, live: LiveState): Column<BrokerGroup>[] {
  return defineColumns<BrokerGroup>(headers(t), (column) => [
    column("name", { sort: true, isFixed: true }, (row) => <BrokerLink name={row.name} />),
    column("state", { sort: "reported_state" }, (row) => <Verdict verdict={withLive(row, live).verdict} of="group" />),
    column("kind", { sort: true }, (row) => t(`kind.${row.kind}`)),
    column("nodes", { align: "right" }, (row) => {
      const { nodes } = withLive(row, live);
      const answering = nodes.filter((node) => !["unmeasured", "unknown"].includes(nodeVerdict(node.numbers)));
      return t("answering", { count: answering.length, all: nodes.length });
    }),
    column("subjects", { align: "right" }, (row) => (row.kind === "broker" ? <Measured value={row.subjects} /> : "—")),
    column("rate_in", { align: "right" }, (row) =>
      row.kind === "broker" ? (
        <Measured {...measured(withLive(row, live).master?.numbers, "send_rate")} as="rate" />
      ) : (
        "—"
      ),
    ),
    column("rate_out", { align: "right" }, (row) => (
      <Measured
        {...measured(withLive(row, live).master?.numbers, row.kind === "broker" ? "pull_rate" : "delivered_per_second")}
        as="rate"
      />
    )),
    column("disk", (row) => <DiskBar numbers={withLive(row, live).master?.numbers} />),
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
