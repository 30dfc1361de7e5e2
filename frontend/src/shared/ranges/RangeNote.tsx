import { Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { History } from "@/api/history";
import { dateTime, duration } from "@/format/times";
import { LinkTo } from "@/ui/links/LinkTo";
import { useSentReason } from "@/ui/measure/useSentReason";
import { useLanguage, useZone } from "@/ui/preferences";

/** Analytics that is behind by more is late: hours appear when they are over, and runs take their time. */
const LATE_MS = 2 * 3_600_000;

/**
 * Where the values of a range come from, what is missing and why. `lines`: names of the drawn fields, of which
 * analytics may not keep all.
 */
export function RangeNote({ data, lines }: { data: History | undefined; lines: Readonly<Record<string, string>> }) {
  const { t } = useTranslation("ranges");
  const reasonOf = useSentReason();
  const [language, zone] = [useLanguage(), useZone()];
  if (!data?.summary) return null;
  const { border_at: border, reason, to_at: to, summary } = data;
  const instant = (at: string) => dateTime(at, zone).slice(0, 16);
  const lacking = Object.keys(lines).filter((field) => !summary.fields.includes(field));
  const notes: Record<string, string | false> = {};
  if (summary.as_of === null) notes.never = t("never");
  else {
    const values = { step: duration(summary.step_seconds, language), as_of: instant(summary.as_of) };
    notes.source = border ? t("before", { ...values, border: instant(border) }) : t("all", values);
    notes.late = Date.parse(border ?? to) - Date.parse(summary.as_of) > LATE_MS && t("late", values);
  }
  notes.demo = summary.is_demo && t("demo");
  notes.missing = summary.missing.length > 0 && t("missing", { groups: summary.missing.join(", ") });
  notes.lacking = lacking.length > 0 && t("lacking", { fields: lacking.map((field) => lines[field]).join(", ") });
  notes.reason = reason !== null && t("not_measured", { reason: reasonOf(reason) });
  const needsHelp = Boolean(notes.never ?? notes.late);
  return (
    <div data-range-note="">
      {Object.entries(notes).map(
        ([id, note]) =>
          note && (
            <Text key={id} size="xs" c="dimmed" data-note={id}>
              {note}
            </Text>
          ),
      )}
      {needsHelp && (
        <LinkTo to="/analytics" search={{ tab: "runs" }} size="xs">
          {t("open_analytics")}
        </LinkTo>
      )}
    </div>
  );
}
