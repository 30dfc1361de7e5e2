import "@mantine/dates/styles.css";
import "dayjs/locale/zh-cn";
import { DatePicker } from "@mantine/dates";
import { useTranslation } from "@/i18n/useTranslation";

/** A month to choose a day from. */
export function Calendar({ day, onPick }: { day: string | null; onPick: (day: string) => void }) {
  const { t, language } = useTranslation();
  return (
    <DatePicker
      locale={language === "zh" ? "zh-cn" : "en"}
      monthLabelFormat="YYYY-MM"
      yearLabelFormat="YYYY"
      defaultDate={day ?? undefined}
      value={day}
      onChange={(picked) => {
        if (picked) onPick(picked);
      }}
      highlightToday
      hideOutsideDates
      weekendDays={[]}
      __stopPropagation
      ariaLabels={{
        previousMonth: t("dates.previous_month"),
        nextMonth: t("dates.next_month"),
        previousYear: t("dates.previous_year"),
        nextYear: t("dates.next_year"),
        previousDecade: t("dates.previous_years"),
        nextDecade: t("dates.next_years"),
      }}
    />
  );
}
