import { Alert, List, Skeleton, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "@/i18n/useTranslation";
import { StopBadge } from "@/features/brokers/stop/StopSummary";
import { stopOptions, type StopEffect } from "@/features/brokers/stop/queries";
import { useReason } from "@/ui/reasons";
import { Dialog } from "@/ui/dialog/Dialog";
import { LinkTo } from "@/ui/links/LinkTo";
import { Measured, type Format } from "@/ui/measure/Measured";
import { FactTable, type Fact } from "@/ui/page/FactTable";
import { loaded } from "@/ui/page/loaded";

/** What stopping a node would mean: who leads then, whether sends are accepted, what is left, and what is concerned. */
export function StopDialog({ nodeId, onClose }: { nodeId: string; onClose: () => void }) {
  const { t } = useTranslation("rehearsals");
  const [effect, instead] = loaded(useQuery(stopOptions(nodeId)), <Skeleton height={240} />);
  return (
    <Dialog opened onClose={onClose} size="lg" title={t("stop.title", { node: nodeId })}>
      {effect ? <Effect effect={effect} /> : instead}
    </Dialog>
  );
}

function Effect({ effect }: { effect: StopEffect }) {
  const { t } = useTranslation("rehearsals");
  const reasonOf = useReason();
  const { kind, broker_group: group, why, is_member: isMember, is_master: isMaster, next_master: next } = effect;
  return (
    <Stack gap="md">
      <StopBadge effect={effect} />
      {why.length > 0 && (
        <Alert color="orange" title={t("stop.because")} role="alert">
          <List size="sm">
            {why.map((one) => (
              <List.Item key={one.text} className="break">
                {reasonOf(one, one.text)}
              </List.Item>
            ))}
          </List>
        </Alert>
      )}
      {!isMember && <Text size="sm">{t("stop.spare")}</Text>}
      {isMember && <Outcome effect={effect} />}
      <div>
        <Text size="sm" fw={600} mb={4}>
          {t(`stop.uses.${kind}`, { group })}
        </Text>
        <Concerned effect={effect} />
      </div>
      {isMember && <Text size="sm">{t(`stop.meanwhile.${next ? (isMaster ? "switch" : "slave") : "none"}`)}</Text>}
      {isMaster && next && (
        <Text size="sm">
          {t("stop.rehearse_first")}{" "}
          <LinkTo to="/brokers" search={{ rehearse: `node:${effect.node_id}` }} size="sm">
            {t("stop.rehearse")}
          </LinkTo>
        </Text>
      )}
    </Stack>
  );
}

function Outcome({ effect }: { effect: StopEffect }) {
  const { t } = useTranslation("rehearsals");
  const { is_master: isMaster, next_master: node, rejects_sends: rejects, in_sync_left: count } = effect;
  const leads = !node ? t("stop.nobody") : isMaster ? t("stop.takes_over", { node }) : t("stop.stays", { node });
  const facts: Fact[] = [
    [t("stop.leads"), leads],
    [t("stop.sends"), rejects ? t("stop.rejected") : t("stop.accepted")],
    [t("stop.copies"), t("stop.copies_of", { count, minimum: effect.in_sync_min })],
  ];
  return <FactTable width={190} facts={facts} />;
}

const NUMBERS: Record<StopEffect["kind"], readonly (readonly [keyof StopEffect, Format])[]> = {
  broker: [
    ["subjects", "count"],
    ["sole_subjects", "count"],
    ["consumer_groups", "count"],
    ["send_rate", "rate"],
    ["pull_rate", "rate"],
  ],
  delay: [
    ["pending", "count"],
    ["delivered_per_second", "rate"],
  ],
};

function Concerned({ effect }: { effect: StopEffect }) {
  const { t } = useTranslation("rehearsals");
  const facts = NUMBERS[effect.kind].map(([field, as]): Fact => {
    const value = effect[field];
    return [
      t(`stop.number.${field}`),
      <Measured
        key={field}
        value={typeof value === "number" ? value : null}
        as={as}
        reason={effect.unmeasured_reason}
      />,
    ];
  });
  return <FactTable width={190} facts={facts} />;
}
