import { useMemo } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { HOUR_MS, pendingIn, type Cell, type Day, type Fields } from "@/features/delayed/calendar";
import classes from "@/features/delayed/HeatMap.module.css";
import { compact } from "@/format/numbers";
import { useLanguage, useZone } from "@/ui/preferences";
import { useNowBy } from "@/ui/measure/useNow";

/** One day of the calendar, a bar an hour. */
export function DayHours({ day, counts, isPartial, selected, onHour }: Fields & { day: Day }) {
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

/** A field of the calendar in words, for screen readers: when, how many, and whether these are only a part. */
export function useCellLabel(): (cell: Cell, count: number, isPartial: boolean) => string {
  const { t } = useTranslation("delayed");
  const language = useLanguage();
  const zone = useZone();
  return useMemo(() => {
    const format = new Intl.DateTimeFormat(language, {
      weekday: "short",
      day: "numeric",
      month: "short",
      hour: "2-digit",
      minute: "2-digit",
      hourCycle: "h23",
      timeZone: zone === "utc" ? "UTC" : undefined,
    });
    // One for all fields: to make a format takes longer than to use it hundreds of times.
    const numbers = new Intl.NumberFormat(language);
    return ({ begin, end }, count, isPartial) => {
      const when = `${format.format(begin)} – ${format.format(end).slice(-5)}`;
      const shown = numbers.format(count);
      if (!isPartial) return t("calendar.cell", { when, count: shown });
      return count > 0 ? t("calendar.cell_at_least", { when, count: shown }) : t("calendar.cell_unknown", { when });
    };
  }, [t, language, zone]);
}
