import type { History } from "@/api/history";
import { duration } from "@/format/times";

/** Analytics that is behind by more is late: hours appear when they are over, and runs take their time. */
const LATE_MS = 2 * 3_600_000;

export type NoteId = "never" | "source" | "late" | "demo" | "missing" | "lacking" | "reason";

export interface NoteWords {
  language: string;
  /** A text below `ranges:`. */
  t: (key: string, values?: Record<string, string>) => string;
  /** A time, to the minute. */
  instant: (at: string) => string;
  /** A reason that the API sent, in the viewer's language. */
  reasonOf: (reason: string) => string;
}

/**
 * Where the values of a range come from, where the border between summaries and measurements is, what is missing and
 * why; nothing for a range within the last hour. `lines`: names of the drawn fields, of which analytics may not keep
 * all. Pure.
 */
export function rangeNotes(
  data: Pick<History, "border_at" | "reason" | "summary" | "to_at">,
  lines: Readonly<Record<string, string>>,
  { language, t, instant, reasonOf }: NoteWords,
): { id: NoteId; text: string }[] {
  const { border_at: border, reason, to_at: to, summary } = data;
  if (!summary) return [];
  const lacking = Object.keys(lines).filter((field) => !summary.fields.includes(field));
  const notes: [NoteId, string | false][] = [];
  if (summary.as_of === null) notes.push(["never", t("never")]);
  else {
    const values = { step: duration(summary.step_seconds, language), as_of: instant(summary.as_of) };
    const isLate = Date.parse(border ?? to) - Date.parse(summary.as_of) > LATE_MS;
    notes.push(["source", border ? t("before", { ...values, border: instant(border) }) : t("all", values)]);
    notes.push(["late", isLate && t("late", values)]);
  }
  notes.push(
    ["demo", summary.is_demo && t("demo")],
    ["missing", summary.missing.length > 0 && t("missing", { groups: summary.missing.join(", ") })],
    ["lacking", lacking.length > 0 && t("lacking", { fields: lacking.map((field) => lines[field]).join(", ") })],
    ["reason", reason !== null && t("not_measured", { reason: reasonOf(reason) })],
  );
  return notes.flatMap(([id, text]) => (text ? [{ id, text }] : []));
}
