import "@/features/brokers/brokers.css";
import { Badge, Group, Paper, Stack, Text } from "@mantine/core";
import { memo } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { rackViews, type GroupView, type RackView } from "@/features/brokers/topology/cluster";
import { Verdict } from "@/features/brokers/Cells";
import { NodeBox } from "@/features/brokers/topology/NodeBox";
import type { Section } from "@/live/applyDelta";
import { Instant } from "@/ui/measure/Instant";
import { LinkTo } from "@/ui/links/LinkTo";
import { BrokerLink } from "@/ui/links/links";
import { useUrlState } from "@/ui/links/urlState";

/** The system drawn: metaservers, below them the groups with their nodes; broker groups first, then delay groups. */
export function Topology({ groups, metaservers }: { groups: readonly GroupView[]; metaservers: Section | undefined }) {
  const { t } = useTranslation("brokers");
  const [{ by }] = useUrlState();
  const inOrder = [...groups].sort((a, b) => a.kind.localeCompare(b.kind));
  const racks = rackViews(groups);
  const hasRacks = racks.some(({ rack }) => rack);
  const isByRack = hasRacks && by === "rack";
  return (
    <section className="topology" aria-label={t("topology")}>
      {hasRacks && <Arrangement isByRack={isByRack} />}
      <div className="topology-top">
        <Metaservers metaservers={metaservers} />
      </div>
      <div className="topology-cells">
        {isByRack
          ? racks.map((rack) => (
              <div key={rack.rack} className="topology-cell">
                <RackCard rack={rack} />
              </div>
            ))
          : inOrder.map((group) => (
              <div key={group.name} className="topology-cell">
                <GroupCard group={group} />
              </div>
            ))}
      </div>
    </section>
  );
}

/** By groups or by racks; the address has which. */
function Arrangement({ isByRack }: { isByRack: boolean }) {
  const { t } = useTranslation("brokers");
  return (
    <Group gap="xs" justify="flex-end" component="nav" aria-label={t("topology_by.label")}>
      {(["group", "rack"] as const).map((by) => (
        <LinkTo
          key={by}
          to="."
          search={{ by: by === "rack" ? by : undefined }}
          size="sm"
          fw={isByRack === (by === "rack") ? 600 : 400}
          aria-current={isByRack === (by === "rack") || undefined}
          data-arrange={by}
        >
          {t(`topology_by.${by}`)}
        </LinkTo>
      ))}
    </Group>
  );
}

function RackCard({ rack: { rack, nodes } }: { rack: RackView }) {
  const { t } = useTranslation("brokers");
  return (
    <Paper withBorder p="sm" data-rack={rack}>
      <Stack gap="xs">
        <Text fw={700} className="break">
          {rack ? t("rack_title", { rack }) : t("no_rack")}
        </Text>
        {nodes.map((node) => (
          <NodeBox key={node.nodeId} node={node} group={node.group} hasGroup />
        ))}
      </Stack>
    </Paper>
  );
}

const Metaservers = memo(function Metaservers({ metaservers = {} }: { metaservers: Section | undefined }) {
  const { t } = useTranslation("brokers");
  const all = Object.entries(metaservers).sort(([a], [b]) => a.localeCompare(b));
  return (
    <Paper withBorder px="md" py="xs" data-metaservers={all.length}>
      <Group gap="md" justify="center">
        <Text component="h2" size="sm" fw={600}>
          {t("metaservers", { count: all.length })}
        </Text>
        {all.length === 0 && (
          <Text size="sm" c="dimmed">
            {t("metaservers_unknown")}
          </Text>
        )}
        {all.map(([address, { is_heard: isReachable, seen_at: seenAt }]) => (
          <Group key={address} gap={6} data-metaserver={address}>
            <Text size="sm" className="break">
              {address}
            </Text>
            <Badge
              variant="light"
              color={isReachable === true ? "teal" : "red"}
              leftSection={<span className="dot" aria-hidden />}
            >
              {t(isReachable === true ? "heard" : "silent")}
            </Badge>
            {isReachable !== true && (
              <Text size="xs" c="dimmed">
                <Instant at={typeof seenAt === "string" ? seenAt : null} relative />
              </Text>
            )}
          </Group>
        ))}
      </Group>
    </Paper>
  );
});

// Drawn again when one of these changes, unlike the numbers of its nodes.
const Head = memo(function Head({ name, kind, verdict }: Pick<GroupView, "name" | "kind" | "verdict">) {
  const { t } = useTranslation("brokers");
  return (
    <Group justify="space-between" gap="xs">
      <Group gap={6} align="baseline">
        <BrokerLink name={name}>
          <strong className="break">{name}</strong>
        </BrokerLink>
        <Text size="xs" c="dimmed">
          {t(`kind.${kind}`)}
        </Text>
      </Group>
      <Verdict verdict={verdict} of="group" />
    </Group>
  );
});

function GroupCard({ group }: { group: GroupView }) {
  const { t } = useTranslation("brokers");
  return (
    <Paper withBorder p="sm" data-group={group.name}>
      <Stack gap="xs">
        <Head name={group.name} kind={group.kind} verdict={group.verdict} />
        {group.kind === "broker" && group.subjects !== null && (
          <Text size="xs" c="dimmed">
            {t("serves", { count: group.subjects })}
            {group.subjectsMoving > 0 && ` · ${t("moving", { count: group.subjectsMoving })}`}
          </Text>
        )}
        {group.nodes.length === 0 && (
          <Text size="xs" c="dimmed">
            {t("no_nodes")}
          </Text>
        )}
        {group.nodes.map((node) => (
          <NodeBox key={node.nodeId} node={node} group={group.name} />
        ))}
      </Stack>
    </Paper>
  );
}
