import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "@/i18n/useTranslation";
import { lastHourOptions } from "@/api/history";
import type { BrokerGroup, Kind } from "@/features/brokers/queries";
import { diskOf, type GroupView, type NodeView } from "@/features/brokers/topology/cluster";
import { bytes } from "@/format/numbers";
import { measured, useLive } from "@/live/useLive";
import { worstReplicationLag } from "@/shared/replicationLag";
import { Measured, type Format } from "@/ui/measure/Measured";
import { NumberStrip, StripNumber } from "@/ui/measure/NumberStrip";
import { useLanguage } from "@/ui/preferences";

/** Numbers of the master, beside those that both kinds have. */
const OWN: Record<Kind, readonly [field: string, as: Format][]> = {
  broker: [
    ["send_rate", "rate"],
    ["pull_rate", "rate"],
  ],
  delay: [
    ["delivered_per_second", "rate"],
    ["pending", "compact"],
    ["overdue", "compact"],
    ["lateness_p99_seconds", "duration"],
  ],
};

const NO_VALUES: readonly (number | null)[] = [];

/** A group's numbers: those of its master, the fullest disk, and the slave that is furthest behind. */
export function GroupNumbers({ group, view }: { group: BrokerGroup; view: GroupView }) {
  const { t } = useTranslation("brokers");
  const language = useLanguage();
  const { data } = useQuery(lastHourOptions({ broker_group: group.name }));
  const { master } = view;
  // Room for the lines is there before they are.
  const historyOf = (field: string) => (data ? data.fields[field] : NO_VALUES);
  const own = (field: string, as: Format) => (
    <StripNumber key={field} label={t(`number.${field}`)} history={historyOf(field)}>
      <Measured {...measured(master?.numbers, field)} as={as} />
    </StripNumber>
  );
  const fullest = fullestDisk(view.nodes);
  const { state } = useLive("/ws/nodes/");
  const slave = worstReplicationLag(state.nodes ?? {}, group.name);
  return (
    <NumberStrip>
      {OWN[view.kind].map(([field, as]) => own(field, as))}
      {slave && (
        <StripNumber label={t("members.lag")} hint={t("number_hint.replication_lag")} note={slave.node}>
          <Measured {...slave.lag} reason={slave.lag.reason ?? t("members.lag_unknown")} as="bytes" />
        </StripNumber>
      )}
      <StripNumber
        label={t("disk")}
        hint={t("number_hint.disk")}
        note={fullest && t("number.free", { free: bytes(fullest.total - fullest.used, language) })}
        history={historyOf("disk_used_bytes")}
      >
        <Measured
          value={fullest ? fullest.used / fullest.total : null}
          as="percent"
          reason={measured(master?.numbers, "disk_free_bytes").reason}
        />
      </StripNumber>
      {own("connections", "count")}
      {view.kind === "broker" && (
        <StripNumber label={t("column.subjects")}>
          <Measured value={group.subjects} />
        </StripNumber>
      )}
    </NumberStrip>
  );
}

function fullestDisk(nodes: readonly NodeView[]) {
  const disks = nodes.map(({ numbers }) => diskOf(numbers)).filter((disk) => disk !== null);
  return disks.sort((a, b) => b.used / b.total - a.used / a.total)[0] ?? null;
}
