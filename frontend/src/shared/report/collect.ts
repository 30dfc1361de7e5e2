import type { Event } from "@/api/events";
import type { History, HistoryOf } from "@/api/history";
import { asProblem } from "@/api/problem";
import type { Schema } from "@/api/client";
import { read } from "@/api/requests";
import type { Span } from "@/shared/ranges/range";

export type AuditEntry = Schema<"AuditRow">;

/** Events of a report, and entries of the audit log: the newest. */
export const ROWS_MAX = 1_000;
const PAGE_ROWS = 500;
/** Consumer groups that get a chart: those that most events concern. */
export const GROUPS_MAX = 6;

/** The newest rows of a list, and whether there are others. */
export interface Rows<Row> {
  rows: readonly Row[];
  hasMore: boolean;
}

export interface Numbers {
  /** "": the whole system. */
  name: string;
  /** Seconds since 1970. */
  at: readonly number[];
  fields: Readonly<Record<string, readonly (number | null)[]>>;
  /** Why there are no numbers. */
  reason: string | null;
  /** What the API says of the range; null: it could not be read. */
  history: History | null;
}

export interface Collected {
  span: Span;
  events: Rows<Event>;
  /** Null: the viewer may not read the audit log. */
  audit: Rows<AuditEntry> | null;
  charts: readonly Numbers[];
  /** Groups that events concern and that have no chart. */
  groupsLeftOut: number;
}

type Load<Row> = (cursor: string | undefined) => Promise<{ results: readonly Row[]; next: string | null }>;

async function newest<Row>(load: Load<Row>): Promise<Rows<Row>> {
  const rows: Row[] = [];
  let cursor: string | undefined;
  for (;;) {
    const page = await load(cursor);
    rows.push(...page.results);
    if (page.next === null) return { rows, hasMore: false };
    if (rows.length >= ROWS_MAX) return { rows, hasMore: true };
    cursor = page.next;
  }
}

/** Consumer groups that events concern, those of the most events first. Pure. */
export function concernedGroups(events: readonly Event[]): { subject: string; group: string }[] {
  const counts = new Map<string, { subject: string; group: string; count: number }>();
  for (const { subject, group } of events) {
    if (!subject || !group) continue;
    const key = `${subject}\n${group}`;
    counts.set(key, { subject, group, count: (counts.get(key)?.count ?? 0) + 1 });
  }
  return [...counts.values()].sort((a, b) => b.count - a.count).map(({ subject, group }) => ({ subject, group }));
}

/** The steps of a history that a span touches; the first one may begin before it. Pure. */
export function within(history: History, { from, to }: Span): Pick<Numbers, "at" | "fields"> {
  const [begin, end] = [Date.parse(from) / 1000, Date.parse(to) / 1000];
  const at = history.at.map((instant) => Date.parse(instant) / 1000);
  const touched = at.map((seconds, index) => seconds <= end && (seconds >= begin || (at[index + 1] ?? 0) > begin));
  const cut = <Value>(values: readonly Value[]) => values.filter((_, index) => touched[index]);
  const fields = Object.fromEntries(Object.entries(history.fields).map(([field, values]) => [field, cut(values)]));
  return { at: cut(at).map((seconds) => Math.max(seconds, begin)), fields };
}

/** Numbers of a span; of the whole system (`name` is empty) those of the last hour: no others are kept. */
async function numbers(name: string, of: HistoryOf, span: Span, signal: AbortSignal): Promise<Numbers> {
  try {
    const history = await read("/api/v1/history/", { query: name ? { ...of, ...span } : of })({ signal });
    return { name, ...within(history, span), reason: history.reason, history };
  } catch (error) {
    // A report of an incident is made when parts of the system do not work: it says which numbers are missing.
    signal.throwIfAborted();
    return { name, at: [], fields: {}, reason: asProblem(error).message, history: null };
  }
}

/** Reads what a report contains. Rejects if events or the audit log can't be read. */
export async function collect(span: Span, mayReadAudit: boolean, signal: AbortSignal): Promise<Collected> {
  const query = { since: span.from, until: span.to, limit: PAGE_ROWS };
  const events = await newest((cursor) => read("/api/v1/events/", { query: { ...query, cursor } })({ signal }));
  const audit = mayReadAudit
    ? await newest((cursor) => read("/api/v1/audit/", { query: { ...query, cursor } })({ signal }))
    : null;
  const groups = concernedGroups(events.rows);
  const charts = [await numbers("", {}, span, signal)];
  for (const { subject, group } of groups.slice(0, GROUPS_MAX))
    charts.push(await numbers(`${subject}/${group}`, { subject, group }, span, signal));
  return { span, events, audit, charts, groupsLeftOut: Math.max(0, groups.length - GROUPS_MAX) };
}
