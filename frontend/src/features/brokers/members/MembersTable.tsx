import { Badge, Progress, Stack, Text } from "@mantine/core";
import { useQueries } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { copyProgress, lagsOf, roleOf, type CopyProgress, type MemberState } from "@/features/brokers/members/members";
import { nodeOptions, type BrokerGroupDetail, type NodeDetail } from "@/features/brokers/queries";
import { bytes, percent } from "@/format/numbers";
import { duration } from "@/format/times";
import { LinkTo } from "@/ui/links/LinkTo";
import { Measured } from "@/ui/measure/Measured";
import { useLanguage } from "@/ui/preferences";
import { useReason } from "@/shared/reasons";
import { defineColumns } from "@/ui/table/define";
import { TableView } from "@/ui/table/TableView";

/** The members of a broker group, and its spare nodes: roles, lag, and why one can't be promoted. */
export function MembersTable({ group }: { group: BrokerGroupDetail }) {
  const { t } = useTranslation("brokers");
  const states = group.member_states;
  const numbers = useNumbers(states);
  const lags = lagsOf(numbers.get(group.master)?.stats);
  const columns = defineColumns<MemberState>(
    (id) => t(`members.${id}`),
    (column) => [
      column("node", { isFixed: true }, ({ node_id: node }) => (
        <LinkTo to="/brokers/$name" params={{ name: group.name }} search={{ node }} size="sm" className="break">
          {node}
        </LinkTo>
      )),
      column("role", { card: "state" }, (member) => <Role member={member} />),
      column("lag", { card: "fact" }, (member) => {
        const copy = member.role === "copying" ? copyProgress(numbers.get(member.node_id)?.stats) : null;
        if (copy) return <Copying copy={copy} node={member.node_id} />;
        if (member.is_master) return "—";
        const lag = lags.get(member.node_id);
        return (
          <span data-lag="">
            <Measured value={lag?.bytes ?? member.lag_bytes} as="bytes" reason={t("members.lag_unknown")} />
            {" · "}
            <Measured
              value={lag?.seconds}
              as="duration"
              reason={t(lag ? "members.far_behind" : "members.lag_unknown")}
            />
          </span>
        );
      }),
      column("epoch", { align: "right", card: "fact" }, ({ epoch }) => epoch ?? "—"),
      column("rack", { card: "fact" }, ({ rack }) => (rack ? rack : "—")),
      column("address", { card: "action" }, ({ address, sync_address: sync }) => (
        <Stack gap={0} className="break">
          <span>{address ?? "—"}</span>
          {sync && (
            <Text size="xs" c="dimmed">
              {t("members.sync", { address: sync })}
            </Text>
          )}
        </Stack>
      )),
      column("promotable", { card: "action" }, (member) => <Promotable member={member} />),
    ],
  );
  return <TableView label={`${group.name}: ${t("members.title")}`} rows={states} columns={columns} rowKey={rowKey} />;
}

function rowKey({ node_id: node }: MemberState): string {
  return node;
}

/** The numbers of the master, which knows the lag of its slaves, and of nodes that copy; by node ID. */
function useNumbers(states: readonly MemberState[]): ReadonlyMap<string, NodeDetail> {
  const reporting = states.filter(({ is_master: isMaster, role }) => isMaster || role === "copying");
  return useQueries({
    queries: reporting.filter(({ address }) => address).map(({ node_id: node }) => nodeOptions(node)),
    combine: (results) =>
      new Map(results.flatMap(({ data }): [string, NodeDetail][] => (data ? [[data.node_id, data]] : []))),
  });
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
