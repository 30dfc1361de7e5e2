import { useMemo, type ReactNode } from "react";
import { useTranslation } from "react-i18next";
import type { GroupName } from "@/features/groups/queries";
import type { Series as Columns } from "@/live/series";
import { MarkedChart } from "@/shared/MarkedChart";
import { useThresholds } from "@/shared/useThresholds";
import type { Marker, Series } from "@/ui/chart/types";
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
  ...look
}: Columns & {
  name: GroupName;
  isPending: boolean;
  /** Controls beside the first heading. */
  aside: ReactNode;
  border?: Marker | undefined;
  isWhole?: boolean;
}) {
  const { t } = useTranslation("groups");
  const lags = useMemo<Series[]>(
    () => [
      { label: t("column.lag"), values: values.lag ?? NO_VALUES, style: "area", as: "count" },
      {
        label: t("column.time_lag_seconds"),
        values: values.time_lag_seconds ?? NO_VALUES,
        as: "duration",
        axis: "right",
      },
    ],
    [values, t],
  );
  const rates = useMemo<Series[]>(
    () => [
      { label: t("column.send_rate"), values: values.send_rate ?? NO_VALUES, as: "rate", style: "area" },
      // Consumers pull ahead, in bursts: below what is acked, in a quiet colour.
      { label: t("column.pull_rate"), values: values.pull_rate ?? NO_VALUES, as: "rate", colour: "gray" },
      { label: t("column.ack_rate"), values: values.ack_rate ?? NO_VALUES, as: "rate", colour: "orange" },
    ],
    [values, t],
  );
  const thresholds = useThresholds(`${name.subject}/${name.group}`, OF_LAG);
  const shared = { about: name, at, isPending, height: HEIGHT_PX, ...look };
  return (
    <>
      <Part title={t("chart.lag")} aside={aside}>
        <MarkedChart label={t("chart.lag")} series={lags} thresholds={thresholds} {...shared} />
      </Part>
      <Part title={t("chart.rates")}>
        <MarkedChart label={t("chart.rates")} series={rates} {...shared} />
      </Part>
    </>
  );
}
