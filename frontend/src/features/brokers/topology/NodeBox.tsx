import "@/features/brokers/brokers.css";
import { Badge, Group, Paper, Stack, Text } from "@mantine/core";
import { memo, type ReactNode } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { COLOURS, lagOf, nodeVerdict, type NodeView } from "@/features/brokers/topology/cluster";
import { DiskBar, Verdict } from "@/features/brokers/Cells";
import { count, sequence } from "@/format/numbers";
import type { Entry } from "@/live/applyDelta";
import { measured } from "@/live/useLive";
import { Instant } from "@/ui/measure/Instant";
import { LinkTo } from "@/ui/links/LinkTo";
import { Measured, type Format } from "@/ui/measure/Measured";
import { useLanguage } from "@/ui/preferences";
import { isExplanation, useReason } from "@/ui/reasons";

const RATES: Record<NodeView["kind"], readonly [string, Format][]> = {
  broker: [
    ["send_rate", "rate"],
    ["pull_rate", "rate"],
  ],
  delay: [
    ["delivered_per_second", "rate"],
    ["pending", "compact"],
  ],
};

/** A node: what it is, whether it answers, how full its disk is, how much goes through it; `isWhole`: its log too. */
export function NodeBox({
  node,
  group,
  isWhole = false,
  hasGroup = false,
}: {
  node: NodeView;
  group: string;
  isWhole?: boolean;
  /** Whether it names its group. */
  hasGroup?: boolean;
}) {
  const { t } = useTranslation("brokers");
  const reasonOf = useReason();
  const { numbers } = node;
  const verdict = nodeVerdict(numbers);
  const given = (why: unknown, text: unknown) =>
    reasonOf(isExplanation(why) ? why : null, typeof text === "string" ? text : "");
  const reason = given(numbers?.why, numbers?.reason) || given(numbers?.state_why, numbers?.state_reason);
  const lastAt = typeof numbers?.at === "string" ? numbers.at : null;
  const language = useLanguage();
  const damaged = measured(numbers, "damaged_ranges").value ?? 0;
  const withheld = measured(numbers, "withheld").value ?? 0;
  return (
    <Paper
      withBorder
      p="xs"
      className="node"
      data-node={node.nodeId}
      style={{ borderLeftColor: `var(--mantine-color-${COLOURS[verdict]}-filled)` }}
    >
      <Stack gap={6}>
        <Group gap="xs" justify="space-between">
          <Name node={node.nodeId} group={group} role={node.role} hasGroup={hasGroup} />
          <Verdict verdict={verdict} of="node" />
        </Group>
        <Text size="xs" c="dimmed" className="break">
          {node.address}
        </Text>
        {damaged > 0 && (
          <Badge color="red" variant="light">
            {t("damaged", { count: damaged })}
          </Badge>
        )}
        {withheld > 0 && (
          <Badge color="red" variant="light" data-withheld={withheld}>
            {t("withheld", { count: withheld, shown: count(withheld, language) })}
          </Badge>
        )}
        {reason && (
          <Text size="xs" className="break" data-reason="">
            {reason}
            {lastAt && (
              <>
                {" · "}
                {t("last_measured")} <Instant at={lastAt} relative />
              </>
            )}
          </Text>
        )}
        <DiskBar numbers={numbers} label={t("disk")} />
        {verdict !== "standby" && (
          <Group gap="md">
            {RATES[node.kind].map(([field, as]) => (
              <Fact key={field} label={t(`number.${field}`)} data-rate={field}>
                <Measured {...measured(numbers, field)} as={as} />
              </Fact>
            ))}
          </Group>
        )}
        {node.role === "slave" && <ReplicationLag numbers={numbers} />}
        {isWhole && <Whole numbers={numbers} />}
        <StopLink node={node.nodeId} group={group} />
      </Stack>
    </Paper>
  );
}

interface Place {
  node: string;
  group: string;
}

// The numbers of a node change each second, and links are not drawn again with them.
const Name = memo(function Name({
  node,
  group,
  role,
  hasGroup,
}: Place & { role: NodeView["role"]; hasGroup: boolean }) {
  const { t } = useTranslation("brokers");
  return (
    <Group gap={6}>
      <LinkTo to="/brokers/$name" params={{ name: group }} search={{ node }} size="sm" fw={600} className="break">
        {node}
      </LinkTo>
      <Text size="xs" c="dimmed">
        {hasGroup ? `${group} · ${t(`role.${role}`)}` : t(`role.${role}`)}
      </Text>
    </Group>
  );
});

const StopLink = memo(function StopLink({ node, group }: Place) {
  const { t } = useTranslation("brokers");
  return (
    <LinkTo
      to="/brokers/$name"
      params={{ name: group }}
      search={{ stop: node }}
      size="xs"
      data-stop-of={node}
      aria-label={t("stop.open_of", { node })}
    >
      {t("stop.open")}
    </LinkTo>
  );
});

/** How far a slave is behind its master. */
function ReplicationLag({ numbers }: { numbers: Entry | undefined }) {
  const { t } = useTranslation("brokers");
  return (
    <Fact label={t("members.lag")} data-fact="replication">
      <Measured {...lagOf(numbers, t("members.lag_unknown"))} as="bytes" />
    </Fact>
  );
}

function Whole({ numbers }: { numbers: Entry | undefined }) {
  const { t } = useTranslation("brokers");
  const { log_begin: begin, log_end: end, reason } = numbers ?? {};
  const isKnown = typeof begin === "string" && typeof end === "string";
  return (
    <Group gap="md">
      <Fact label={t("fact.log")} data-fact="log">
        {isKnown ? (
          `${sequence(begin)} – ${sequence(end)}`
        ) : (
          <Measured value={null} reason={typeof reason === "string" ? reason : null} />
        )}
      </Fact>
      <Fact label={t("number.connections")}>
        <Measured {...measured(numbers, "connections")} />
      </Fact>
      <Fact label={t("fact.uptime")}>
        <Measured {...measured(numbers, "uptime_seconds")} as="duration" />
      </Fact>
    </Group>
  );
}

function Fact({ label, children, ...rest }: { label: string; children: ReactNode }) {
  return (
    <Text size="xs" {...rest}>
      <Text span inherit c="dimmed">
        {label}
      </Text>{" "}
      {children}
    </Text>
  );
}
