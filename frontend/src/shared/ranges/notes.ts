import type { History } from "@/api/history";
import { listed } from "@/format/names";
import { duration } from "@/format/times";

export type Job = NonNullable<History["summary"]>["job"];

/**
 * A job that is behind by more is late. Of analytics, hours appear when they are over, and runs take their time; the
 * ten minutes of `summaries` appear within ten more.
 */
const LATE_MS: Readonly<Record<Job, number>> = { analytics: 2 * 3_600_000, summaries: 1_800_000 };

export type NoteId = "never" | "source" | "late" | "gaps" | "demo" | "missing" | "omitted" | "lacking" | "reason";

export interface NoteWords {
  language: string;
  /** A text below `ranges:`. */
  t: (key: string, values?: Record<string, string | number>) => string;
  /** A time, to the minute. */
  instant: (at: string) => string;
  /** A reason that the API sent, in the viewer's language. */
  reasonOf: (reason: string) => string;
}

/**
 * Where the values of a range come from, where the border between summaries and measurements is, what is missing and
 * why; nothing for a range within the last hour. `lines`: names of the drawn fields, of which a job may not store all.
 * Pure.
 */
export function rangeNotes(
  data: Pick<History, "at" | "border_at" | "fields" | "reason" | "summary" | "to_at">,
  lines: Readonly<Record<string, string>>,
  { language, t, instant, reasonOf }: NoteWords,
): { id: NoteId; text: string }[] {
  const { border_at: border, reason, to_at: to, summary } = data;
  if (!summary) return [];
  const { job, omitted_steps_count: omitted } = summary;
  const names = Object.keys(lines);
  const lacking = names.filter((field) => !summary.fields.includes(field));
  const notes: [NoteId, string | false][] = [];
  if (summary.as_of === null) notes.push(["never", t(`by.${job}.never`)]);
  else {
    const values = { step: duration(summary.step_seconds, language), as_of: instant(summary.as_of) };
    const isLate = Date.parse(border ?? to) - Date.parse(summary.as_of) > LATE_MS[job];
    notes.push(
      ["source", border ? t(`by.${job}.before`, { ...values, border: instant(border) }) : t(`by.${job}.all`, values)],
      ["late", isLate && t(`by.${job}.late`, values)],
      ["gaps", job === "summaries" && names.length > 0 && hasGaps(data, names) && t("gaps")],
    );
  }
  notes.push(
    ["demo", summary.is_demo && t("demo")],
    ["missing", summary.missing.length > 0 && t("missing", { groups: summary.missing.join(", ") })],
    ["omitted", omitted > 0 && t("omitted", { count: omitted })],
    [
      "lacking",
      lacking.length > 0 &&
        t("lacking", {
          fields: listed(
            lacking.map((field) => lines[field] ?? field),
            language,
          ),
        }),
    ],
    ["reason", reason !== null && t("not_measured", { reason: reasonOf(reason) })],
  );
  return notes.flatMap(([id, text]) => (text ? [{ id, text }] : []));
}

/** Whether nothing is known of these fields in a step that is stored. */
function hasGaps(
  { at, border_at: border, summary, fields }: Pick<History, "at" | "border_at" | "fields" | "summary">,
  names: readonly string[],
): boolean {
  const length = (summary?.step_seconds ?? 0) * 1000;
  const end = Math.min(...[border, summary?.as_of].map((instant) => (instant ? Date.parse(instant) : Infinity)));
  return at.some(
    (begin, index) =>
      Date.parse(begin) + length <= end && names.every((name) => typeof fields[name]?.[index] !== "number"),
  );
}
