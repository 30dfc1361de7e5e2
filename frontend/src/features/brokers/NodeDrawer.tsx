import { Alert, Button, Loader, Stack, Table, Text, Title } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { useMay } from "@/api/me";
import { LogLoss } from "@/features/brokers/LogLoss";
import { nodeOptions, type NodeDetail } from "@/features/brokers/queries";
import { missingBytes, readStats, type Damage } from "@/features/brokers/stats";
import { bytes, sequence } from "@/format/numbers";
import { Instant } from "@/ui/Instant";
import { Measured } from "@/ui/Measured";
import { SideDrawer } from "@/ui/SideDrawer";
import { useLanguage } from "@/ui/preferences";
import { ProblemAlert } from "@/ui/ProblemAlert";
import { useUrlState } from "@/ui/urlState";

/** The node that the address names by `?node=`, asked now. */
export function NodeDrawer() {
  const { t } = useTranslation("brokers");
  const [{ node }, change] = useUrlState();
  return (
    <SideDrawer opened={Boolean(node)} onClose={() => change({ node: undefined })} title={t("node_title", { node })}>
      {node && <Detail nodeId={node} />}
    </SideDrawer>
  );
}

function Detail({ nodeId }: { nodeId: string }) {
  const { data, error, refetch } = useQuery(nodeOptions(nodeId));
  if (error) return <ProblemAlert error={error} onRetry={() => void refetch()} />;
  return data ? <Facts node={data} /> : <Loader aria-label={nodeId} />;
}

function Facts({ node }: { node: NodeDetail }) {
  const { t } = useTranslation("brokers");
  const stats = node.stats ? readStats(node.stats) : null;
  const reason = node.unknown_reason;
  const offset = (value: number | null | undefined) =>
    value == null ? <Measured value={null} reason={reason} /> : sequence(String(value));
  const rows: [string, ReactNode][] = [
    ["role", t(`role.${node.is_master ? "master" : "slave"}`)],
    ["address", node.address],
    ["admin_address", node.admin_address || "—"],
    ["version", node.version || "—"],
    ["heard", <Instant key="heard" at={node.leased_at} relative />],
    ["uptime", <Measured key="uptime" value={stats?.uptimeSeconds} as="duration" reason={reason} />],
    ["connections", <Measured key="connections" value={stats?.connections} reason={reason} />],
    ["log_begin", offset(stats?.logBegin)],
    ["log_end", offset(stats?.logEnd)],
    ["synced_end", offset(stats?.syncedEnd)],
    ["reported_end", sequence(node.log_end)],
    [
      "policy",
      stats ? (
        stats.policyProblem || stats.policyVersion || "—"
      ) : (
        <Measured key="policy" value={null} reason={reason} />
      ),
    ],
  ];
  return (
    <Stack>
      {reason && (
        <Alert color="red" icon={<IconAlertTriangle aria-hidden />} title={t("node_silent")}>
          <Text size="sm" className="break">
            {reason}
          </Text>
        </Alert>
      )}
      {stats?.stateReason && (
        <Alert color="orange" icon={<IconAlertTriangle aria-hidden />} title={t("node_refuses")}>
          <Text size="sm" className="break">
            {stats.stateReason}
          </Text>
        </Alert>
      )}
      <Missing node={node} missing={missingBytes(node.log_end, stats)} end={stats?.syncedEnd ?? null} />
      <Table>
        <Table.Tbody>
          {rows.map(([id, value]) => (
            <Table.Tr key={id} data-fact={id}>
              <Table.Th scope="row" w="45%">
                {t(`fact.${id}`)}
              </Table.Th>
              <Table.Td className="break">{value}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
      {stats && stats.damaged.length > 0 && <Damaged ranges={stats.damaged} />}
    </Stack>
  );
}

/** A log that ends earlier than it did: what that means, and the way on. */
function Missing({ node, missing, end }: { node: NodeDetail; missing: number | null; end: number | null }) {
  const { t } = useTranslation("brokers");
  const language = useLanguage();
  const may = useMay();
  const [isAccepting, setAccepting] = useState(false);
  if (!missing || end === null) return null;
  return (
    <Alert color="red" icon={<IconAlertTriangle aria-hidden />} title={t("loss.title")} data-missing={missing}>
      <Stack gap="xs" align="flex-start">
        <Text size="sm">{t("loss.what", { missing: bytes(missing, language), end: sequence(String(end)) })}</Text>
        <Text size="sm">{t("loss.first")}</Text>
        {may("change_cluster") && (
          <Button color="red" variant="outline" onClick={() => setAccepting(true)}>
            {t("loss.open")}
          </Button>
        )}
      </Stack>
      {isAccepting && <LogLoss nodeId={node.node_id} logEnd={String(end)} onClose={() => setAccepting(false)} />}
    </Alert>
  );
}

function Damaged({ ranges }: { ranges: readonly Damage[] }) {
  const { t } = useTranslation("brokers");
  const language = useLanguage();
  return (
    <section aria-label={t("damaged", { count: ranges.length })}>
      <Title order={3} size="h5" mb="xs">
        {t("damaged", { count: ranges.length })}
      </Title>
      <Text size="sm" c="dimmed" mb="xs">
        {t("damaged_means")}
      </Text>
      <Table>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{t("damage.range")}</Table.Th>
            <Table.Th ta="right">{t("damage.size")}</Table.Th>
            <Table.Th>{t("damage.why")}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {ranges.map(({ begin, end, why }) => (
            <Table.Tr key={begin}>
              <Table.Td>
                {sequence(String(begin))} – {sequence(String(end))}
              </Table.Td>
              <Table.Td ta="right">{bytes(end - begin, language)}</Table.Td>
              <Table.Td className="break">{why}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </section>
  );
}
