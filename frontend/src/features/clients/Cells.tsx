import { Badge, Group, Text } from "@mantine/core";
import { useTranslation } from "@/i18n/useTranslation";
import type { Client } from "@/features/clients/queries";
import { agentText } from "@/features/clients/words";
import { Measured } from "@/ui/measure/Measured";

/** An application; delay nodes have none, and a client may name none. */
export function App({ row }: { row: Client }) {
  const { t } = useTranslation("clients");
  if (row.app) return <span className="break">{row.app}</span>;
  if (row.role === "delay_node") return <Text inherit>{t("delay_nodes")}</Text>;
  return <Measured value={null} reason={t("no_app")} />;
}

/** Where a client is, and its connections. */
export function Address({ row }: { row: Client }) {
  const { t } = useTranslation("clients");
  const hint = row.addresses.length > 0 ? row.addresses.join(", ") : t("not_connected");
  return (
    <span data-hint={hint} className="nowrap">
      {row.host || "—"}
    </span>
  );
}

export function Version({ row }: { row: Client }) {
  const { t } = useTranslation("clients");
  if (row.agents.length > 0) return <span>{row.agents.map(agentText).join("; ")}</span>;
  const reason = row.protocol === null ? t("no_version") : t("no_version_protocol", { protocol: row.protocol });
  return <Measured value={null} reason={reason} />;
}

export function Rate({ row }: { row: Client }) {
  const { t } = useTranslation("clients");
  const isKnown = row.rate !== null;
  const isPartial = !isKnown && row.missing.length > 0;
  const reason = row.role === "delayed_producer" ? t("delayed_rate") : t("not_measured");
  return (
    <Measured
      value={row.rate}
      as="rate"
      reason={isPartial ? t("no_answer", { groups: row.missing.join(", ") }) : reason}
      missing={row.missing}
      atLeast={isKnown ? undefined : (row.at_least ?? undefined)}
    />
  );
}

/** What a consumer pulls, and whether other members of its group pull something else. */
export function Subscription({ row }: { row: Client }) {
  const { t } = useTranslation("clients");
  if (row.role !== "consumer" || row.tags === null) return null;
  const tags = row.tags.join(row.all_tags ? " + " : " | ");
  return (
    <Group gap={6} wrap="nowrap">
      <span>{tags || t("all_messages")}</span>
      {row.broadcast && (
        <Badge variant="light" color="gray">
          {t("broadcast")}
        </Badge>
      )}
      {row.differs.length > 0 && (
        <Badge variant="light" color="yellow" data-hint={row.differs.map((what) => t(`differs.${what}`)).join(" ")}>
          {t("differs.badge")}
        </Badge>
      )}
    </Group>
  );
}
