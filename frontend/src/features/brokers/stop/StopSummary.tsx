import { Badge, Group, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "@/i18n/useTranslation";
import type { BrokerGroup } from "@/features/brokers/queries";
import { stopOptions, type StopEffect } from "@/features/brokers/stop/queries";
import { LinkTo } from "@/ui/links/LinkTo";
import { Measured } from "@/ui/measure/Measured";
import { useProblemWords } from "@/ui/page/problemWords";

/** Whether a node may be stopped now, and what its group does then, in a line; the dialog has the rest. */
export function StopSummary({ group, nodeId }: { group: BrokerGroup; nodeId: string }) {
  const { t } = useTranslation("brokers");
  const { data, error } = useQuery(stopOptions(nodeId, [group.epoch, ...group.in_sync].join(" ")));
  const wordsOf = useProblemWords();
  if (!data) return <Measured value={null} reason={error ? wordsOf(error).text : t("stop.asking")} />;
  return (
    <Group gap={6} data-stop={data.may_stop ? "may" : "not"}>
      <StopBadge effect={data} />
      <Text size="sm" className="break">
        <Outcome effect={data} />{" "}
        <LinkTo
          to="/brokers/$name"
          params={{ name: group.name }}
          search={{ stop: nodeId }}
          size="sm"
          aria-label={t("stop.details_of", { node: nodeId })}
        >
          {t("stop.details")}
        </LinkTo>
      </Text>
    </Group>
  );
}

export function StopBadge({ effect: { may_stop: may } }: { effect: StopEffect }) {
  const { t } = useTranslation("brokers");
  return (
    <Badge
      color={may ? "teal" : "orange"}
      variant="light"
      tt="none"
      leftSection={<span className="dot" aria-hidden />}
      title={t(may ? "stop.may_hint" : "stop.may_not_hint")}
    >
      {t(may ? "stop.may" : "stop.may_not")}
    </Badge>
  );
}

function Outcome({ effect }: { effect: StopEffect }) {
  const { t } = useTranslation("brokers");
  const { is_member, is_master, next_master: node, rejects_sends: rejects, in_sync_left: count } = effect;
  if (!is_member) return t("stop.spare");
  if (!node) return t(`stop.away.${effect.kind}`);
  const leads = is_master ? t("stop.takes_over", { node }) : t("stop.keeps", { node });
  return `${leads} ${rejects ? t("stop.rejects") : t("stop.copies_left", { count })}`;
}
