import { useTranslation } from "react-i18next";
import { HOUR_MS, pendingIn, type Cell, type Counts, type Day } from "@/features/delayed/calendar";
import classes from "@/features/delayed/HeatMap.module.css";
import { useCellLabel } from "@/features/delayed/useCellLabel";
import { compact } from "@/format/numbers";
import { useLanguage } from "@/ui/preferences";
import { useNowBy } from "@/ui/useNow";

/** One day of the calendar, a bar an hour. */
export function DayHours({
  day,
  counts,
  isPartial,
  selected,
  onHour,
}: {
  day: Day;
  counts: Counts;
  isPartial: boolean;
  selected: Cell | null;
  onHour: (cell: Cell) => void;
}) {
  const { t } = useTranslation("delayed");
  const language = useLanguage();
  const cellLabel = useCellLabel();
  const hourNow = useNowBy(HOUR_MS);
  const most = Math.max(1, ...day.hours.map((cell) => (cell ? pendingIn(cell, counts) : 0)));
  return (
    <div className={classes.bars} role="group" aria-label={t("calendar.day_title")}>
      {day.hours.map((cell, hour) => {
        const count = cell ? pendingIn(cell, counts) : 0;
        return (
          <button
            key={hour}
            type="button"
            className={classes.bar}
            disabled={!cell}
            aria-label={cell ? cellLabel(cell, count, isPartial) : t("calendar.no_hour")}
            aria-pressed={cell !== null && selected?.begin === cell.begin && selected.end === cell.end}
            data-now={(cell && hourNow >= cell.begin && hourNow < cell.end) || undefined}
            onClick={() => cell && onHour(cell)}
          >
            {count > 0 ? `${compact(count, language)}${isPartial ? "+" : ""}` : isPartial ? "?" : ""}
            <span className={classes.fill} style={{ height: `${(count / most) * 75}%` }} aria-hidden />
            <span className={classes.tick}>{String(hour).padStart(2, "0")}</span>
          </button>
        );
      })}
    </div>
  );
}
