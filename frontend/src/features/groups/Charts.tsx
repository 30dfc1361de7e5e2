import { Stack } from "@mantine/core";
import { useMemo } from "react";
import type { GroupName } from "@/features/groups/queries";
import { GroupCharts } from "@/features/groups/GroupCharts";
import type { Timelines } from "@/features/groups/timelines";
import { RangePicker } from "@/shared/ranges/RangePicker";
import { PRESET_FIRST } from "@/shared/ranges/range";
import { useRange } from "@/shared/ranges/useRange";
import { whenDrawn } from "@/ui/dialog/whenOpened";

const LongCharts = whenDrawn(async () => (await import("@/features/groups/LongCharts")).LongCharts, ["ranges"]);

/** Lag and time lag, and what comes in against what is acked: the last hour continued live, or a longer range. */
export function Charts({ name, timelines }: { name: GroupName; timelines: Timelines }) {
  const [range] = useRange();
  const { group, lag, sent } = timelines;
  const hour = useMemo(() => ({ at: group.at, values: { ...group.values, lag, send_rate: sent } }), [group, lag, sent]);
  const lastHour = <GroupCharts name={name} {...hour} isPending={group.isPending} aside={<RangePicker />} />;
  if (range.preset === PRESET_FIRST) return <Stack gap="sm">{lastHour}</Stack>;
  return (
    <Stack gap="sm">
      <LongCharts name={name} range={range} hour={hour} waiting={lastHour} />
    </Stack>
  );
}
