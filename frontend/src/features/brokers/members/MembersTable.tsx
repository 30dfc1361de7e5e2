import { Badge, Progress, Stack, Text } from "@mantine/core";
import { useQueries } from "@tanstack/react-query";
import { useTranslation } from "@/i18n/useTranslation";
import { copyProgress, roleOf, type CopyProgress, type MemberState } from "@/features/brokers/members/members";
import { DiskBar } from "@/features/brokers/Cells";
import { nodeOptions, type BrokerGroupDetail } from "@/features/brokers/queries";
import { StopSummary } from "@/features/brokers/stop/StopSummary";
import { lagOf } from "@/features/brokers/topology/cluster";
import { bytes, percent } from "@/format/numbers";
import { duration } from "@/format/times";
import { measured, useLiveEntry } from "@/live/useLive";
import { LinkTo } from "@/ui/links/LinkTo";
import { Measured } from "@/ui/measure/Measured";
import { useLanguage } from "@/ui/preferences";
import { useReason } from "@/ui/reasons";
import { defineColumns } from "@/ui/table/define";
import { TableView } from "@/ui/table/TableView";

/** The members of a broker group, and its spare nodes: roles, lag, and why one can't be promoted. */
export function MembersTable({ group }: { group: BrokerGroupDetail }) {
  const { t } = useTranslation("brokers");
  const states = group.member_states;
  const copies = useCopies(states);
  const columns = defineColumns<MemberState>(
    (id) => t(`members.${id}`),
    (column) => [
      column("node", { isFixed: true }, (member) => <Node member={member} group={group.name} />),
      column("role", { card: "state" }, (member) => <Role member={member} />),
      column("lag", { card: "fact" }, (member) => {
        const copy = copies.get(member.node_id);
        if (copy) return <Copying copy={copy} node={member.node_id} />;
        return member.is_master ? "—" : <ReplicationLag member={member} />;
      }),
      column("disk", { card: "action" }, ({ node_id: node }) => <Disk node={node} />),
      column("stop", { card: "action" }, ({ node_id: node }) => (
        <div className="stop-cell">
          <StopSummary group={group} nodeId={node} />
        </div>
      )),
      column("promotable", { card: "action" }, (member) => <Promotable member={member} />),
      column("epoch", { align: "right", card: "fact" }, ({ epoch }) => epoch ?? "—"),
    ],
  );
  return <TableView label={`${group.name}: ${t("members.title")}`} rows={states} columns={columns} rowKey={rowKey} />;
}

function rowKey({ node_id: node }: MemberState): string {
  return node;
}

/** The progress of nodes that copy, by node ID. */
function useCopies(states: readonly MemberState[]): ReadonlyMap<string, CopyProgress> {
  const copying = states.filter(({ role, address }) => role === "copying" && address);
  return useQueries({
    queries: copying.map(({ node_id: node }) => nodeOptions(node)),
    combine: (results) =>
      new Map(
        results.flatMap(({ data }): [string, CopyProgress][] => {
          const copy = copyProgress(data?.stats);
          return data && copy ? [[data.node_id, copy]] : [];
        }),
      ),
  });
}

/** A node, and where it is. */
function Node({ member, group }: { member: MemberState; group: string }) {
  const { t } = useTranslation("brokers");
  const { node_id: node, rack, address, sync_address: sync } = member;
  const where = [rack && t("members.on_rack", { rack }), address, sync && t("members.sync", { address: sync })];
  return (
    <Stack gap={0}>
      <LinkTo to="/brokers/$name" params={{ name: group }} search={{ node }} size="sm" className="break">
        {node}
      </LinkTo>
      {where.filter(Boolean).map((text) => (
        <Text key={text} size="xs" c="dimmed" className="break">
          {text}
        </Text>
      ))}
    </Stack>
  );
}

function ReplicationLag({ member }: { member: MemberState }) {
  const { t } = useTranslation("brokers");
  const numbers = useLiveEntry("/ws/nodes/", "nodes", member.node_id);
  const lag = lagOf(numbers, t("members.lag_unknown"));
  const seconds = measured(numbers, "replication_lag_seconds");
  return (
    <span data-lag="">
      <Measured {...lag} value={lag.value ?? member.lag_bytes} as="bytes" />
      {" · "}
      <Measured
        {...seconds}
        as="duration"
        reason={seconds.reason ?? t(lag.value === null ? "members.lag_unknown" : "members.far_behind")}
      />
    </span>
  );
}

function Disk({ node }: { node: string }) {
  return <DiskBar numbers={useLiveEntry("/ws/nodes/", "nodes", node)} />;
}

function Role({ member }: { member: MemberState }) {
  const { t } = useTranslation("brokers");
  const { role, colour } = roleOf(member);
  return (
    <Badge
      color={colour}
      variant="light"
      tt="none"
      data-role={role}
      leftSection={<span className="dot" aria-hidden />}
      title={t(`members.role_hint.${role}`)}
    >
      {t(`members.roles.${role}`)}
    </Badge>
  );
}

function Copying({ copy, node }: { copy: CopyProgress; node: string }) {
  const { t } = useTranslation("brokers");
  const language = useLanguage();
  const { share, done, total, bytesPerSecond, secondsLeft } = copy;
  const size = t("disk_of", { used: bytes(done, language), total: bytes(total, language) });
  const speed = t("members.per_second", { rate: bytes(bytesPerSecond, language) });
  const left = secondsLeft === null ? t("members.left_unknown") : duration(secondsLeft, language);
  return (
    <Stack gap={2} miw={100} data-copy={node}>
      <Text size="xs">
        {share !== null && `${percent(share, language)} · `}
        {size}
      </Text>
      <Progress
        value={(share ?? 0) * 100}
        size="sm"
        color="blue"
        aria-label={t("members.copy_of", { node })}
        aria-valuetext={size}
      />
      <Text size="xs" c="dimmed">
        {speed} · {t("members.left", { time: left })}
      </Text>
    </Stack>
  );
}

/** Whether a node can be promoted, or why not, and why others are promoted before it. */
function Promotable({ member }: { member: MemberState }) {
  const { t } = useTranslation("brokers");
  const reasonOf = useReason();
  const limitations = (member.limitations ?? []).map((why) => reasonOf(why, why.text));
  return (
    <Stack gap={0}>
      <Promotion member={member} />
      {limitations.length > 0 && (
        <Text size="sm" className="break" data-limitations-of={member.node_id}>
          {t("members.limited", { why: limitations.join(t("members.and")) })}
        </Text>
      )}
    </Stack>
  );
}

function Promotion({ member }: { member: MemberState }) {
  const { t } = useTranslation("brokers");
  const reasonOf = useReason();
  if (member.is_master && member.role === "master") return <Text size="sm">{t("members.is_master")}</Text>;
  if (member.problem === "") return <Text size="sm">{t("members.can_be_promoted")}</Text>;
  return (
    <Text size="sm" className="break" data-problem-of={member.node_id}>
      {t("members.not_promotable", { why: reasonOf(member.problem_why, member.problem) })}
    </Text>
  );
}
