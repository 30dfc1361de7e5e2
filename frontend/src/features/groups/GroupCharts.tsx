import { useMemo, useState, type ReactNode } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import type { GroupName } from "@/features/groups/queries";
import type { Series as Columns } from "@/live/series";
import { MarkedChart } from "@/shared/MarkedChart";
import { Thresholds } from "@/shared/Thresholds";
import type { Marker, Series, Threshold } from "@/ui/chart/types";
import { Part } from "@/ui/page/Part";

const HEIGHT_PX = 150;
const OF_LAG = { lag: { as: "count", axis: "left" }, time_lag: { as: "duration", axis: "right" } } as const;
const NO_VALUES: readonly (number | null)[] = [];

/** A group's two charts, from columns of any range. */
export function GroupCharts({
  name,
  at,
  values,
  isPending,
  aside,
  earlier,
  ...look
}: Columns & {
  name: GroupName;
  isPending: boolean;
  /** Controls beside the first heading. */
  aside: ReactNode;
  /** What lines of another time are called, whose columns end with `_before`. */
  earlier?: string;
  border?: Marker | undefined;
  isWhole?: boolean;
}) {
  const { t } = useTranslation("groups");
  const drawn = useMemo(() => {
    const line = (field: string, look: Partial<Series>): Series => ({
      label: t(`column.${field}`),
      values: values[field] ?? NO_VALUES,
      ...look,
    });
    // Below the others, faint.
    const before = (field: string, as: Series["as"]): Series[] =>
      earlier
        ? [
            {
              label: `${t(`column.${field}`)} ${earlier}`,
              values: values[`${field}_before`] ?? NO_VALUES,
              as,
              colour: "gray",
            },
          ]
        : [];
    const pulled = line("pull_rate", { as: "rate", colour: "gray" });
    return {
      lags: [
        line("lag", { style: "area", as: "count", colour: "blue" }),
        line("time_lag_seconds", { as: "duration", axis: "right", colour: "orange" }),
        ...before("lag", "count"),
      ],
      rates: [
        line("send_rate", { as: "rate", style: "area", colour: "blue" }),
        // Consumers pull ahead, in bursts: below what is acked, in a quiet colour.
        ...(earlier ? [] : [pulled]),
        line("ack_rate", { as: "rate", colour: "orange" }),
        ...before("send_rate", "rate"),
        ...before("ack_rate", "rate"),
      ],
    };
  }, [values, earlier, t]);
  const [thresholds, setThresholds] = useState<readonly Threshold[]>();
  const shared = { about: name, at, isPending, height: HEIGHT_PX, ...look };
  return (
    <>
      <Thresholds target={`${name.subject}/${name.group}`} lines={OF_LAG} onRead={setThresholds} />
      <Part title={t("chart.lag")} aside={aside}>
        <MarkedChart label={t("chart.lag")} series={drawn.lags} thresholds={thresholds} {...shared} />
      </Part>
      <Part title={t("chart.rates")}>
        <MarkedChart label={t("chart.rates")} series={drawn.rates} {...shared} />
      </Part>
    </>
  );
}
