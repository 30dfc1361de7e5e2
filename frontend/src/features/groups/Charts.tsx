import { Stack } from "@mantine/core";
import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import type { Timelines } from "@/features/groups/timelines";
import { TimeChart } from "@/ui/chart/TimeChart";
import type { Series } from "@/ui/chart/types";
import { Part } from "@/ui/page/Part";

const HEIGHT_PX = 150;

/** Lag and time lag, and what comes in against what is acked: the last hour, continued live. */
export function Charts({ timelines: { group, lag, sent } }: { timelines: Timelines }) {
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
  const shared = { at, isPending, height: HEIGHT_PX };
  return (
    <Stack gap="sm">
      <Part title={t("chart.lag")}>
        <TimeChart label={t("chart.lag")} series={lags} {...shared} />
      </Part>
      <Part title={t("chart.rates")}>
        <TimeChart label={t("chart.rates")} series={rates} {...shared} />
      </Part>
    </Stack>
  );
}
