import type { Event } from "@/api/events";
import { textOf } from "@/format/values";
import * as numbers from "@/format/numbers";
import * as times from "@/format/times";
import { rangeNotes } from "@/shared/ranges/notes";
import type { Span } from "@/shared/ranges/range";
import { ROWS_MAX, type Collected, type Numbers } from "@/shared/report/collect";
import { Html, html, table } from "@/shared/report/html";
import { KEPT_DAYS } from "@/shared/report/span";
import { chart } from "@/shared/report/svg";

/** Texts and sentences in the viewer's language. */
export interface Words {
  language: string;
  /** A text below `events:`. */
  t: (key: string, values?: Record<string, string | number>) => string;
  /** A text below `ranges:`. */
  range: (key: string, values?: Record<string, string | number>) => string;
  sentence: (event: Event) => string;
  /** Why something changed, of an entry of the audit log. */
  reason: (entry: { why: Event["why"]; reason: string }) => string;
  /** A reason that the API sent. */
  sentReason: (reason: string) => string;
  /** A rule's name. */
  rule: (name: string) => string;
}

const STYLE = `body{font:14px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:64rem;padding:0 1rem;color:#212529;background:#fff}
table{border-collapse:collapse;width:100%}th,td{text-align:left;vertical-align:top;padding:2px 8px;border-bottom:1px solid #dee2e6;overflow-wrap:anywhere}
td:first-child,td:nth-child(2){white-space:nowrap;font-variant-numeric:tabular-nums}
h2{margin-top:2rem}figure{margin:1rem 0}svg{width:100%;border:1px solid #dee2e6}.key{border-left:12px solid;padding-left:4px;margin-right:1rem}
.axis{display:flex;justify-content:space-between;color:#495057;font-size:12px}
.critical{color:#c92a2a;font-weight:600}.warning{color:#b35309}.note{color:#495057}td span{white-space:nowrap}`;

function both(at: string): [string, string] {
  return [times.utc(at), times.dateTime(at, "local")];
}

function lines({ fields }: Numbers, words: Words) {
  const lag = fields.lag ?? (fields.backlog ?? []).map((value, index) => {
    const other = fields.in_flight?.[index];
    return value === null || typeof other !== "number" ? null : value + other;
  }); // prettier-ignore
  const found = [
    { label: words.t("report.line.sent"), values: fields.send_rate ?? [] },
    { label: words.t("report.line.acked"), values: fields.ack_rate ?? [] },
    { label: words.t("report.line.lag"), values: lag },
  ];
  return found.filter(({ values }) => values.some((value) => value !== null));
}

/** A time to the minute, in UTC. */
function minute(at: string): string {
  return `${times.dateTime(at, "utc").slice(0, 16)} UTC`;
}

/** Where the numbers come from, and which are missing. */
function notesOf({ name, history }: Numbers, span: Span, words: Words): string[] {
  if (!history) return [];
  const { from_at: from, to_at: to } = history;
  if (name === "")
    return Date.parse(span.from) < Date.parse(from)
      ? [words.t("report.system_hour", { from: minute(from), to: minute(to) })]
      : [];
  return rangeNotes(
    history,
    {},
    { language: words.language, t: words.range, instant: minute, reasonOf: words.sentReason },
  ).map(({ text }) => text);
}

function chartOf(found: Numbers, span: Span, events: readonly Event[], words: Words): Html {
  const title = found.name || words.t("report.system");
  const drawn = lines(found, words);
  const notes = notesOf(found, span, words).map((text) => html`<p class="note">${text}</p>`);
  if (drawn.length === 0)
    return html`<p class="note">
        ${title}: ${found.reason === null ? words.t("report.no_numbers") : words.sentReason(found.reason)}
      </p>
      ${notes}`;
  const seconds = (at: string) => Date.parse(at) / 1000;
  const markers = events.map((event) => ({ at: seconds(event.at), label: words.sentence(event) }));
  const drawing = {
    title,
    span: { from: seconds(span.from), to: seconds(span.to), texts: [minute(span.from), minute(span.to)] as const },
    at: found.at,
    lines: drawn,
    markers: markers.slice(0, 100),
    border: found.history?.border_at ? { at: seconds(found.history.border_at), label: words.t("report.border") } : null,
  };
  const number = (value: number) => numbers.count(Math.round(value * 10) / 10, words.language);
  return html`${chart(drawing, number)}${notes}`;
}

function note(text: string, isShown: boolean): Html {
  return isShown ? html`<p class="note">${text}</p>` : html``;
}

/** The report as a file: a page without scripts or anything from elsewhere. Pure. */
export function reportPage(
  { span, events, audit, charts, groupsLeftOut }: Collected,
  madeAt: string,
  words: Words,
): string {
  const { t } = words;
  const columns = [t("report.utc"), t("report.local", { zone: times.zoneName("local") })];
  const inOrder = [...events.rows].reverse();
  const alerts = inOrder.filter(({ kind }) => kind === "alert_fired" || kind === "alert_resolved");
  const severity = (event: Event) => html`<span class="${event.severity}">${t(`severity.${event.severity}`)}</span>`;
  const [from, to] = [both(span.from), both(span.to)];
  const marked = inOrder.filter(({ kind }) =>
    ["failover", "switch_over", "drain", "reset", "restart", "alert_fired"].includes(kind),
  );
  const page = html`<!doctype html>
<html lang="${words.language}"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width"><title>${t("report.title")} ${from[0]}</title>
<style>${new Html(STYLE)}</style></head><body>
<h1>${t("report.title")}</h1>
<p>${t("report.span", { from: from[0], to: to[0] })}<br>${t("report.span_local", { from: from[1], to: to[1], zone: times.zoneName("local") })}</p>
<p class="note">${t("report.made", { at: times.utc(madeAt) })}</p>
<h2>${t("report.events")}</h2>
${note(t("report.events_left_out", { most: ROWS_MAX }), events.hasMore)}
${note(t("report.events_kept", { days: KEPT_DAYS }), Date.parse(span.from) < Date.parse(madeAt) - KEPT_DAYS * 86_400_000)}
${inOrder.length === 0 ? html`<p>${t("empty.short")}</p>` : table([...columns, t("column.severity"), t("column.what")], inOrder.map((event) => [...both(event.at), severity(event), words.sentence(event)]))}
<h2>${t("report.charts")}</h2>
${charts.map((one) => chartOf(one, span, one.name === "" ? marked : marked.filter(({ subject, group, broker_group: brokers }) => Boolean(brokers) || `${subject ?? ""}/${group ?? ""}` === one.name), words))}
${note(t("report.groups_left_out", { n: groupsLeftOut }), groupsLeftOut > 0)}
<h2>${t("report.alerts")}</h2>
${alerts.length === 0 ? html`<p>${t("report.no_alerts")}</p>` : table([...columns, t("column.severity"), t("report.rule"), t("report.target"), t("report.state")], alerts.map((event) => [...both(event.at), severity(event), words.rule(textOf(event.values.rule)), event.target, t(`kind.${event.kind}`)]))}
<h2>${t("report.audit")}</h2>
${audit === null ? html`<p>${t("report.no_right")}</p>` : note(t("report.audit_left_out", { most: ROWS_MAX }), audit.hasMore)}
${audit === null ? html`` : audit.rows.length === 0 ? html`<p>${t("report.no_audit")}</p>` : table([...columns, t("column.actor"), t("report.action"), t("report.target"), t("report.reason")], [...audit.rows].reverse().map((entry) => [...both(entry.at), entry.actor, entry.action, entry.target, words.reason(entry)]))}
</body></html>
`; // prettier-ignore
  return page.text;
}
