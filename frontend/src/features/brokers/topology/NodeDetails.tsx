import { Alert, Button, Loader, Stack, Text, Textarea, Title } from "@mantine/core";
import { IconAlertTriangle } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { limitsOf } from "@/api/limits";
import { useMay } from "@/api/me";
import { change } from "@/api/requests";
import { nodeOptions, OUTDATED, type NodeDetail } from "@/features/brokers/queries";
import { missingBytes, readStats, type Damage, type Scrub } from "@/features/brokers/topology/stats";
import { bytes, percent, sequence } from "@/format/numbers";
import { duration } from "@/format/times";
import { ChangeDialog } from "@/ui/dialog/ChangeDialog";
import { Instant } from "@/ui/measure/Instant";
import { loaded } from "@/ui/page/loaded";
import { Measured } from "@/ui/measure/Measured";
import { useLanguage } from "@/ui/preferences";
import { useReason } from "@/ui/reasons";
import { PlainTable } from "@/ui/table/PlainTable";
import { defineColumns } from "@/ui/table/define";
import { Table } from "@/ui/table/Table";
import { Sent } from "@/ui/Sent";

/** A node's own numbers, requested now, and what an operator can do about missing messages. */
export function NodeDetails({ nodeId }: { nodeId: string }) {
  const [data, instead] = loaded(useQuery(nodeOptions(nodeId)), <Loader aria-label={nodeId} />);
  return data ? <Facts node={data} /> : instead;
}

function Facts({ node }: { node: NodeDetail }) {
  const { t } = useTranslation("brokers");
  const reasonOf = useReason();
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
        (stats.policyProblem && <Sent text={stats.policyProblem} />) || stats.policyVersion || "—"
      ) : (
        <Measured key="policy" value={null} reason={reason} />
      ),
    ],
    ["repaired", <Measured key="repaired" value={stats?.repairedRanges} reason={reason} />],
    ["scrub", stats ? <ScrubDone key="scrub" scrub={stats.scrub} /> : <Measured value={null} reason={reason} />],
    ["last_pass", stats ? <LastPass key="last_pass" scrub={stats.scrub} /> : <Measured value={null} reason={reason} />],
  ];
  const warnings = [
    ["node_silent", "red", reason && reasonOf(null, reason)],
    ["node_refuses", "orange", stats && reasonOf(stats.stateWhy, stats.stateReason)],
  ] as const;
  return (
    <Stack>
      {warnings.map(
        ([title, color, text]) =>
          text && (
            <Alert key={title} color={color} icon={<IconAlertTriangle aria-hidden />} title={t(title)}>
              <Text size="sm" className="break">
                {text}
              </Text>
            </Alert>
          ),
      )}
      <Missing node={node} missing={missingBytes(node.log_end, stats)} end={stats?.reportedEnd ?? null} />
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
      {stats && stats.damaged.length > 0 && (
        <Damaged ranges={stats.damaged} count={Math.max(stats.damaged.length, stats.damagedRanges ?? 0)} />
      )}
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

/** How much of its stored data a node has read again in the present pass. */
function ScrubDone({ scrub }: { scrub: Scrub | null }) {
  const { t } = useTranslation("brokers");
  const language = useLanguage();
  if (!scrub) return t("scrub_off");
  return t("scrub_done", { share: percent(scrub.share, language), time: duration(scrub.passSeconds, language) });
}

function LastPass({ scrub }: { scrub: Scrub | null }) {
  const { t } = useTranslation("brokers");
  const language = useLanguage();
  const age = scrub?.lastPassAge ?? null;
  return age === null ? t("last_pass_none") : t("last_pass_ago", { time: duration(age, language) });
}

/** `count`: how many there are; the node names the first ones. */
function Damaged({ ranges, count }: { ranges: readonly Damage[]; count: number }) {
  const { t } = useTranslation("brokers");
  const language = useLanguage();
  return (
    <section aria-label={t("damaged", { count })}>
      <Title order={3} size="h5" mb="xs">
        {t("damaged", { count })}
      </Title>
      <Text size="sm" c="dimmed" mb="xs">
        {t("damaged_means")}
      </Text>
      <PlainTable
        label={t("damaged", { count })}
        columns={defineColumns<Damage>(
          (id) => t(`damage.${id}`),
          (column) => [
            column("file", ({ file }) => <span className="break">{file === "log" ? t("damaged_log") : file}</span>),
            column("range", ({ begin, end }) => `${sequence(String(begin))} – ${sequence(String(end))}`),
            column("size", { align: "right" }, ({ begin, end }) => bytes(end - begin, language)),
            column("why", ({ why }) => (
              <span className="break">
                <Sent text={why} />
              </span>
            )),
            column("problem", ({ problem }) => (
              <span className="break">{problem ? <Sent text={problem} /> : "—"}</span>
            )),
          ],
        )}
        rows={ranges}
        rowKey={({ file, begin, end }) => `${file} ${begin} ${end}`}
      />
      {count > ranges.length && (
        <Text size="sm" c="dimmed" mt="xs">
          {t("damaged_more", { count: count - ranges.length })}
        </Text>
      )}
    </section>
  );
}

/**
 * Accept the loss of what a node's log had above its present end. A reason is required, because the audit log records
 * it.
 */
function LogLoss({ nodeId, logEnd, onClose }: { nodeId: string; logEnd: string; onClose: () => void }) {
  const { t } = useTranslation("brokers");
  const [reason, setReason] = useState("");
  // The page continues to request the node's state, so the log end is the one that was read when the dialog was opened.
  const [end] = useState(logEnd);
  return (
    <ChangeDialog
      onClose={onClose}
      title={t("loss.dialog", { node: nodeId })}
      confirmName={nodeId}
      actionLabel={t("loss.do")}
      doneMessage={t("loss.done", { node: nodeId })}
      run={({ dryRun }) =>
        change(
          "post",
          "/api/v1/nodes/{node_id}/accept-log-loss/",
          { dryRun, reason: reason.trim() },
          { path: { node_id: nodeId }, body: { log_end: end } },
        )
      }
      inputs={reason}
      isReady={reason.trim() !== ""}
      reasonField={false}
      refreshes={OUTDATED}
    >
      <Text size="sm">{t("loss.warning")}</Text>
      <Textarea
        label={t("loss.why")}
        required
        maxLength={limitsOf("LogLossRequest", "reason").maxLength}
        rows={3}
        value={reason}
        onChange={(event) => setReason(event.currentTarget.value)}
      />
    </ChangeDialog>
  );
}
