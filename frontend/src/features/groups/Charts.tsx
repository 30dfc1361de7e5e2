import { Stack } from "@mantine/core";
import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import type { GroupName } from "@/features/groups/queries";
import type { Timelines } from "@/features/groups/timelines";
import { MarkedChart } from "@/shared/MarkedChart";
import type { Series } from "@/ui/chart/types";
import { Part } from "@/ui/page/Part";

const HEIGHT_PX = 150;

/** Lag and time lag, and what comes in against what is acked: the last hour, continued live. */
export function Charts({ name, timelines: { group, lag, sent } }: { name: GroupName; timelines: Timelines }) {
  const { t } = useTranslation("groups");
  const { at, values, isPending } = group;
  const lags = useMemo<Series[]>(
    () => [
      { label: t("column.lag"), values: lag, style: "area", as: "count" },
      { label: t("column.time_lag_seconds"), values: values.time_lag_seconds ?? [], as: "duration", axis: "right" },
    ],
    [values, lag, t],
  );
  const rates = useMemo<Series[]>(
    () => [
      { label: t("column.send_rate"), values: sent, as: "rate", style: "area" },
      // Consumers pull ahead, in bursts: below what is acked, in a quiet colour.
      { label: t("column.pull_rate"), values: values.pull_rate ?? [], as: "rate", colour: "gray" },
      { label: t("column.ack_rate"), values: values.ack_rate ?? [], as: "rate", colour: "orange" },
    ],
    [values, sent, t],
  );
  const shared = { about: name, at, isPending, height: HEIGHT_PX };
  return (
    <Stack gap="sm">
      <Part title={t("chart.lag")}>
        <MarkedChart label={t("chart.lag")} series={lags} {...shared} />
      </Part>
      <Part title={t("chart.rates")}>
        <MarkedChart label={t("chart.rates")} series={rates} {...shared} />
      </Part>
    </Stack>
  );
}
