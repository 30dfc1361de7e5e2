import { useMemo } from "react";
import { useTranslation } from "react-i18next";
import type { Cell } from "@/features/delayed/calendar";
import { useLanguage, useZone } from "@/ui/preferences";

/** What a field of the calendar says to whoever can't see it: when, and how many; a part of them is said to be one. */
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
