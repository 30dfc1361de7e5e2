import { memo, useCallback } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { HistoryCharts } from "@/features/brokers/HistoryCharts";
import type { Kind } from "@/features/brokers/queries";
import { PRESET_FIRST } from "@/shared/ranges/range";
import { RangePicker } from "@/shared/ranges/RangePicker";
import { useRange } from "@/shared/ranges/useRange";
import { whenDrawn } from "@/ui/dialog/whenOpened";
import { LastHour } from "@/ui/measure/LastHour";
import type { Line } from "@/ui/measure/lines";
import { Part } from "@/ui/page/Part";

const RIGHT = { axis: "right", colour: "orange" } as const;
const DISK: readonly Line[] = [
  ["disk_used_bytes", "bytes", { style: "area" }],
  ["connections", "count", RIGHT],
];
/** What is drawn together; two units at most. */
const CHARTS: Record<Kind, readonly (readonly Line[])[]> = {
  broker: [
    [
      ["send_rate", "rate"],
      ["pull_rate", "rate", { colour: "teal" }],
      ["send_bytes_rate", "bytes", RIGHT],
    ],
    DISK,
  ],
  delay: [
    [
      ["delivered_per_second", "rate"],
      ["pending", "count", RIGHT],
    ],
    [
      ["lateness_p99_seconds", "duration"],
      ["overdue", "count", RIGHT],
    ],
    DISK,
  ],
};

const LongHistory = whenDrawn(async () => (await import("@/features/brokers/LongHistory")).LongHistory, ["ranges"]);

/** The last hour of a group's master, or a longer range. */
export const GroupHistory = memo(function GroupHistory({ name, kind }: { name: string; kind: Kind }) {
  const { t } = useTranslation("brokers");
  const [range] = useRange();
  const labelOf = useCallback((field: string) => t(`number.${field}`), [t]);
  const lastHour = (
    <LastHour of={{ broker_group: name }} charts={CHARTS[kind]} labelOf={labelOf}>
      {(at, charts, isPending) => <HistoryCharts name={name} at={at} charts={charts} isPending={isPending} />}
    </LastHour>
  );
  return (
    <Part title={t("history_title")} isRegion aside={<RangePicker />}>
      {range.preset === PRESET_FIRST ? (
        lastHour
      ) : (
        <LongHistory name={name} range={range} charts={CHARTS[kind]} labelOf={labelOf} waiting={lastHour} />
      )}
    </Part>
  );
});
