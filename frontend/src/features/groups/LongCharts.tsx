import { useMemo, type ReactNode } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { GroupCharts } from "@/features/groups/GroupCharts";
import type { GroupName } from "@/features/groups/queries";
import type { Series } from "@/live/series";
import { heldAt } from "@/shared/ranges/merge";
import type { Range } from "@/shared/ranges/range";
import { RangeNote } from "@/shared/ranges/RangeNote";
import { useRangeHistory } from "@/shared/ranges/useRangeHistory";
import { QueryProblem } from "@/ui/page/loaded";

const DRAWN = ["lag", "time_lag_seconds", "pull_rate", "ack_rate"] as const;

/** A group's charts of more than the last hour; `hour` is that, continued live. */
export function LongCharts({
  name,
  range,
  hour,
  aside,
}: {
  name: GroupName;
  range: Range;
  hour: Series;
  /** Controls beside the first heading. */
  aside: ReactNode;
}) {
  const { t } = useTranslation("groups");
  const { subject, group } = name;
  const ofGroup = useMemo(() => ({ subject, group }), [subject, group]);
  const ofSubject = useMemo(() => ({ subject }), [subject]);
  const found = useRangeHistory(ofGroup, range, hour);
  const sends = useRangeHistory(ofSubject, range, hour);
  const { at } = found.series;
  const values = useMemo(
    () => ({ ...found.series.values, send_rate: heldAt(at, sends.series, "send_rate") }),
    [found.series, at, sends.series],
  );
  return (
    <>
      <GroupCharts
        name={name}
        at={at}
        values={values}
        isPending={found.query.isPending || sends.query.isPending}
        aside={aside}
        border={found.border}
        isWhole
      />
      <QueryProblem of={found.query} />
      <RangeNote data={found.data} lines={Object.fromEntries(DRAWN.map((field) => [field, t(`column.${field}`)]))} />
    </>
  );
}
