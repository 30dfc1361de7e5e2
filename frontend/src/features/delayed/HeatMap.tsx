import { useMemo, useRef, useState, type KeyboardEvent } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { HOUR_MS, levelOf, pendingIn, type Day, type Fields } from "@/features/delayed/calendar";
import { dayOf } from "@/format/times";
import { useCellLabel } from "@/features/delayed/DayHours";
import classes from "@/features/delayed/HeatMap.module.css";
import { compact } from "@/format/numbers";
import { useLanguage, useZone } from "@/ui/preferences";
import { useNowBy } from "@/ui/measure/useNow";

interface Props extends Fields {
  days: readonly Day[];
  onDay: (day: string) => void;
}

const STEPS: Readonly<Record<string, readonly [days: number, hours: number]>> = {
  ArrowLeft: [0, -1],
  ArrowRight: [0, 1],
  ArrowUp: [-1, 0],
  ArrowDown: [1, 0],
  PageUp: [-7, 0],
  PageDown: [7, 0],
};

/**
 * Pending messages by day (rows, with their totals) and hour (columns). Arrow keys move, Page keys by a week, Home and
 * End within the day, Enter chooses.
 */
export function HeatMap({ days, counts, isPartial, selected, onHour, onDay }: Props) {
  const { t } = useTranslation("delayed");
  const language = useLanguage();
  const zone = useZone();
  const cellLabel = useCellLabel();
  const hourNow = useNowBy(HOUR_MS);
  const today = dayOf(hourNow, zone);
  const table = useRef<HTMLTableElement>(null);
  // One field is reached by the Tab key, the others by arrows.
  const [[day, hour], setActive] = useState<readonly [number, number]>([0, 0]);
  // Texts of hundreds of fields: made when the numbers change, not when the focus moves.
  const { pending, labels, most } = useMemo(() => {
    const pending = days.map(({ hours }) => hours.map((cell) => (cell ? pendingIn(cell, counts) : 0)));
    const labels = days.map(({ hours }, n) =>
      hours.map((cell, hour) => (cell ? cellLabel(cell, pending[n]?.[hour] ?? 0, isPartial) : "")),
    );
    return { pending, labels, most: Math.max(0, ...pending.flat()) };
  }, [days, counts, isPartial, cellLabel]);
  const goTo = (nextDay: number, nextHour: number, step: number) => {
    let at = nextHour;
    // An hour that the day leaves out is passed over.
    while (days[nextDay]?.hours[at] === null) at += step;
    if (!days[nextDay]?.hours[at]) return;
    setActive([nextDay, at]);
    table.current?.querySelector<HTMLElement>(`[data-at="${nextDay}-${at}"]`)?.focus();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === "Home") goTo(day, 0, 1);
    else if (event.key === "End") goTo(day, 23, -1);
    else {
      const step = STEPS[event.key];
      if (!step) return;
      goTo(Math.min(days.length - 1, Math.max(0, day + step[0])), hour + step[1], step[1] < 0 ? -1 : 1);
    }
    event.preventDefault();
  };
  const shown = (count: number) =>
    count > 0 ? `${compact(count, language)}${isPartial ? "+" : ""}` : isPartial ? "?" : "";
  return (
    // eslint-disable-next-line jsx-a11y/no-noninteractive-element-to-interactive-role -- a grid that is a table for the eye
    <table ref={table} role="grid" aria-label={t("calendar.title")} className={classes.map}>
      <thead>
        <tr>
          <th className={classes.corner}>
            <span className="sr-only">{t("calendar.day")}</span>
          </th>
          {Array.from({ length: 24 }, (_, column) => (
            <th key={column} scope="col" className={classes.hour}>
              {String(column).padStart(2, "0")}
            </th>
          ))}
          <th scope="col" className={classes.total}>
            {t("calendar.total")}
          </th>
        </tr>
      </thead>
      <tbody>
        {days.map((each, row) => (
          <tr key={each.day}>
            <th scope="row">
              <DayHead day={each} isFirst={row === 0} isToday={each.day === today} onDay={onDay} />
            </th>
            {each.hours.map((cell, column) => {
              if (!cell) return <td key={column} role="gridcell" aria-label={t("calendar.no_hour")} />;
              const count = pending[row]?.[column] ?? 0;
              const label = labels[row]?.[column];
              return (
                <td
                  key={column}
                  role="gridcell"
                  aria-selected={selected?.begin === cell.begin && selected.end === cell.end}
                >
                  <button
                    type="button"
                    className={classes.cell}
                    tabIndex={row === day && column === hour ? 0 : -1}
                    aria-label={label}
                    title={label}
                    data-at={`${row}-${column}`}
                    data-level={levelOf(count, most)}
                    data-now={(hourNow >= cell.begin && hourNow < cell.end) || undefined}
                    onFocus={() => setActive([row, column])}
                    onKeyDown={onKeyDown}
                    onClick={() => onHour(cell)}
                  >
                    {shown(count)}
                  </button>
                </td>
              );
            })}
            <td role="gridcell" className={classes.total} data-total={each.day}>
              {shown(pending[row]?.reduce((sum, count) => sum + count, 0) ?? 0)}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function DayHead({
  day: { day, begin },
  isFirst,
  isToday,
  onDay,
}: {
  day: Day;
  isFirst: boolean;
  isToday: boolean;
  onDay: (day: string) => void;
}) {
  const { t } = useTranslation("delayed");
  const language = useLanguage();
  const zone = useZone();
  const timeZone = zone === "utc" ? "UTC" : undefined;
  const format = (options: Intl.DateTimeFormatOptions) =>
    new Intl.DateTimeFormat(language, { ...options, timeZone }).format(begin);
  const date = Number(day.slice(8));
  const weekday = new Date(`${day}T00:00:00Z`).getUTCDay();
  const isWeekend = weekday === 0 || weekday === 6;
  return (
    <button
      type="button"
      className={`${classes.day} ${isWeekend ? classes.weekend : ""} ${isToday ? classes.today : ""}`}
      aria-current={isToday ? "date" : undefined}
      onClick={() => onDay(day)}
    >
      <span aria-hidden>
        {isFirst || date === 1 ? format({ month: "short" }) : format({ weekday: "short" })} {date}
      </span>
      <span className="sr-only">{t("calendar.open_day", { day: format({ dateStyle: "full" }) })}</span>
    </button>
  );
}
