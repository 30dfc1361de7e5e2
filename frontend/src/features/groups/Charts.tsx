import { Group, Stack } from "@mantine/core";
import { IconArrowsDiff } from "@tabler/icons-react";
import { useMemo } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import type { GroupName } from "@/features/groups/queries";
import { GroupCharts } from "@/features/groups/GroupCharts";
import type { Timelines } from "@/features/groups/timelines";
import { comparedOf } from "@/shared/ranges/compare";
import { RangePicker } from "@/shared/ranges/RangePicker";
import { PRESET_FIRST } from "@/shared/ranges/range";
import { useRange } from "@/shared/ranges/useRange";
import { useUrlState } from "@/ui/links/urlState";
import { IconButton } from "@/ui/menu/buttons";
import { whenDrawn } from "@/ui/dialog/whenOpened";

const LongCharts = whenDrawn(async () => (await import("@/features/groups/LongCharts")).LongCharts, ["ranges"]);

const Compared = whenDrawn(async () => (await import("@/features/groups/Compared")).Compared, ["ranges"]);

/** Lag and time lag, and what comes in against what is acked: the last hour continued live, or other times. */
export function Charts({ name, timelines }: { name: GroupName; timelines: Timelines }) {
  const { t } = useTranslation("groups");
  const [range] = useRange();
  const [{ compare }, change] = useUrlState();
  const { group, lag, sent } = timelines;
  const hour = useMemo(() => ({ at: group.at, values: { ...group.values, lag, send_rate: sent } }), [group, lag, sent]);
  const compared = useMemo(() => comparedOf(compare), [compare]);
  const aside = (
    <Group gap="xs">
      <RangePicker />
      <IconButton icon={IconArrowsDiff} label={t("compare")} onClick={() => change({ compare: "before" })} />
    </Group>
  );
  const lastHour = <GroupCharts name={name} {...hour} isPending={group.isPending} aside={aside} />;
  const shown = { name, range, waiting: lastHour };
  return (
    <Stack gap="sm">
      {compared ? (
        <Compared key={`${compare} ${range.preset}`} {...shown} compared={compared} />
      ) : range.preset === PRESET_FIRST ? (
        lastHour
      ) : (
        <LongCharts {...shown} hour={hour} aside={aside} />
      )}
    </Stack>
  );
}
