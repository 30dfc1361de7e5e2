import { useMemo, type ReactNode } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import type { Series as Columns } from "@/live/series";
import { MarkedChart } from "@/shared/MarkedChart";
import { RangePicker } from "@/shared/ranges/RangePicker";
import type { Marker, Series } from "@/ui/chart/types";
import { Part } from "@/ui/page/Part";

const CHART_HEIGHT = 170;
const NO_VALUES: readonly (number | null)[] = [];

/** What is sent to a subject, from columns of any range. */
export function SendRates({
  subject,
  at,
  values,
  note,
  ...look
}: Columns & {
  subject: string;
  isPending: boolean;
  border?: Marker | undefined;
  isWhole?: boolean;
  /** Below the chart. */
  note?: ReactNode;
}) {
  const { t } = useTranslation("subjects");
  const series = useMemo<Series[]>(
    () => [
      { label: t("chart.send_rate"), values: values.send_rate ?? NO_VALUES, as: "rate", style: "area" },
      { label: t("chart.send_bytes_rate"), values: values.send_bytes_rate ?? NO_VALUES, as: "bytes", axis: "right" },
    ],
    [t, values],
  );
  const shared = { about: { subject }, label: t("chart.title"), height: CHART_HEIGHT };
  return (
    <Part title={t("chart.title")} aside={<RangePicker />}>
      <MarkedChart {...shared} at={at} series={series} {...look} />
      {note}
    </Part>
  );
}
