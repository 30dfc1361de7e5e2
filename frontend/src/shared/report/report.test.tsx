import { afterEach, expect, test, vi } from "vitest";
import type { Event } from "@/api/events";
import type { History } from "@/api/history";
import { SPAN_DAYS_MAX } from "@/shared/ranges/range";
import { answer } from "@/test/mount";
import { collect, concernedGroups, GROUPS_MAX, ROWS_MAX, within, type Collected } from "@/shared/report/collect";
import { reportPage, type Words } from "@/shared/report/page";
import { wrongSpan } from "@/shared/report/span";
import { chart, pieces } from "@/shared/report/svg";

const HOSTILE = `</title><script>alert(1)</script><img src=x onerror="alert(2)">'"&{{t}}`;
const SPAN = { from: "2026-11-30T10:00:00Z", to: "2026-11-30T11:00:00Z" };
const AT = Date.parse("2026-11-30T10:30:00Z") / 1000;
const event = (values: Partial<Event>): Event => ({
  id: "1",
  at: "2026-11-30T10:30:00Z",
  kind: "alert_fired",
  severity: "critical",
  target: HOSTILE,
  action: null,
  subject: HOSTILE,
  group: HOSTILE,
  broker_group: null,
  node: null,
  actor: HOSTILE,
  reason: HOSTILE,
  why: null,
  values: { rule: HOSTILE },
  ...values,
});
const words: Words = {
  language: "en",
  t: (key, values) => `${key}${values ? ` ${Object.values(values).join(" ")}` : ""}`,
  range: (key, values) => `range.${key} ${Object.values(values ?? {}).join(" ")}`,
  sentence: ({ kind, target }) => `${kind} of ${target}`,
  reason: ({ reason }) => reason,
  sentReason: (reason) => reason,
  rule: (name) => name,
};
const entry = {
  at: "2026-11-30T10:31:00Z",
  actor: HOSTILE,
  action: HOSTILE,
  target: HOSTILE,
  reason: HOSTILE,
  why: null,
};
/** Hours of summaries until 10:20, and measurements. */
const history: History = {
  from_at: SPAN.from,
  to_at: SPAN.to,
  step_seconds: 10,
  at: ["09:00", "10:00", "10:20", "10:30"].map((time) => `2026-11-30T${time}:00Z`),
  fields: { lag: [7, 8, 9, 10], ack_rate: [1, null, 2, 2] },
  reason: null,
  border_at: "2026-11-30T10:20:00Z",
  summary: {
    step_seconds: 3600,
    job: "analytics",
    state: "filled",
    as_of: "2026-11-30T10:00:00Z",
    is_demo: true,
    missing: [HOSTILE],
    omitted_steps_count: 0,
    fields: ["lag", "ack_rate"],
  },
  figures: {},
};
const numbers = { ...within(history, SPAN), reason: null, history };
const found: Collected = {
  span: SPAN,
  events: { rows: [event({})], hasMore: false },
  audit: { rows: [entry as NonNullable<Collected["audit"]>["rows"][number]], hasMore: true },
  charts: [
    { name: "", at: [AT, AT + 10], fields: { send_rate: [1, 2], lag: [null, 3] }, reason: null, history: null },
    { name: `${HOSTILE}/${HOSTILE}`, at: [], fields: {}, reason: HOSTILE, history: null },
  ],
  groupsLeftOut: 2,
};

afterEach(() => vi.unstubAllGlobals());

test("hostile names are text in every part, and the file has no script and nothing from elsewhere", () => {
  const page = reportPage(found, SPAN.to, words);
  const read = new DOMParser().parseFromString(page, "text/html");
  expect(read.querySelectorAll("script, img, link, iframe, a, [onerror], [src], [href]")).toHaveLength(0);
  expect(read.querySelector('meta[http-equiv="Content-Security-Policy"]')?.getAttribute("content")).toContain(
    "default-src 'none'",
  );
  const cells = [...read.querySelectorAll("td")].map((cell) => cell.textContent);
  expect(cells.filter((text) => text === HOSTILE)).toHaveLength(6);
  expect(cells).toContain(`alert_fired of ${HOSTILE}`);
  expect(read.querySelector("svg title")?.textContent).toBe(`alert_fired of ${HOSTILE}`);
  expect(read.querySelectorAll("polyline")).toHaveLength(2);
});

test("times are in UTC and in the viewer's zone, and what was left out is said", () => {
  const page = reportPage(found, SPAN.to, words);
  const read = new DOMParser().parseFromString(page, "text/html");
  expect(
    [...read.querySelectorAll("tbody tr:first-child td")].slice(0, 2).map((cell) => cell.textContent)[0],
  ).toContain("2026-11-30 10:30:00");
  expect(page).toContain(`report.audit_left_out ${ROWS_MAX}`);
  expect(page).not.toContain("report.events_left_out");
  expect(page).toContain("report.groups_left_out 2");
  expect(reportPage({ ...found, audit: null }, SPAN.to, words)).toContain("report.no_right");
});

test("an empty report has its sections", () => {
  const none = { rows: [], hasMore: false };
  const page = reportPage({ ...found, events: none, audit: none, charts: [], groupsLeftOut: 0 }, SPAN.to, words);
  for (const text of ["empty.short", "report.no_alerts", "report.no_audit"]) expect(page).toContain(text);
});

test("a span that is too long, too old or ends before it begins is refused with its limit", () => {
  const now = Date.parse("2026-11-30T12:00:00Z");
  expect(wrongSpan(SPAN, now)).toBeNull();
  expect(wrongSpan({ from: "2025-11-30T11:00:00Z", to: SPAN.to }, now)).toEqual({ key: "too_long", days: 365 });
  expect(wrongSpan({ from: SPAN.to, to: SPAN.from }, now)?.key).toBe("order");
  expect(wrongSpan({ from: "2026-11-30T12:00:00Z", to: "2026-11-30T13:00:00Z" }, now)?.key).toBe("future");
  expect(wrongSpan({ from: SPAN.from, to: "2026-11-30T13:00:00Z" }, now)).toBeNull();
  expect(wrongSpan({ from: null, to: SPAN.to }, now)?.key).toBe("incomplete");
  expect(wrongSpan({ from: "2026-07-01T00:00:00Z", to: "2026-07-02T00:00:00Z" }, now)?.key).toBe("too_old");
  const longest = new Date(Date.parse(SPAN.to) - SPAN_DAYS_MAX * 86_400_000).toISOString();
  expect(wrongSpan({ from: longest, to: SPAN.to }, now)).toBeNull();
});

test("a line has a gap where nothing was measured, never a zero", () => {
  expect(
    pieces(
      [0, 1, 2, 3],
      [1, null, 2, 3],
      (x) => x,
      (y) => y,
    ),
  ).toEqual(["0.0,1.0", "2.0,2.0 3.0,3.0"]);
});

const drawing = {
  title: "x",
  span: { from: 0, to: 100, texts: ["the beginning", "the end"] as const },
  at: [0, 10],
  lines: [{ label: "a", values: [1, 2] }],
  markers: [
    { at: 50, label: "in" },
    { at: 500, label: "out" },
  ],
  border: null,
};

test("a chart has the whole span as its axis, also where nothing was measured", () => {
  const { text } = chart(drawing, String);
  expect([text.includes("<title>in</title>"), text.includes("out")]).toEqual([true, false]);
  const read = new DOMParser().parseFromString(text, "text/html");
  const points = read.querySelector("polyline")?.getAttribute("points")?.split(" ");
  // A tenth of the axis, which begins and ends 8 from the edges of 760.
  expect(points?.map((point) => point.split(",")[0])).toEqual(["8.0", "82.4"]);
  expect(read.querySelector(".axis")?.textContent).toBe("the beginningthe end");
});

test("a single value is drawn, as a line without length", () => {
  const { text } = chart({ ...drawing, lines: [{ label: "a", values: [null, 2] }] }, String);
  const points = new DOMParser().parseFromString(text, "text/html").querySelector("polyline")?.getAttribute("points");
  expect(new Set(points?.split(" ")).size).toBe(1);
  expect(points?.split(" ")).toHaveLength(2);
});

test("steps that a span touches belong to it, the first one from its beginning on", () => {
  const seconds = (time: string) => Date.parse(`2026-11-30T${time}Z`) / 1000;
  const span = { from: "2026-11-30T09:30:00Z", to: "2026-11-30T10:20:00Z" };
  expect(within(history, span)).toEqual({
    at: [seconds("09:30:00"), seconds("10:00:00"), seconds("10:20:00")],
    fields: { lag: [7, 8, 9], ack_rate: [1, null, 2] },
  });
  expect(within(history, SPAN).at[0]).toBe(seconds("10:00:00"));
});

test("a chart names its border, where its values come from, and what is missing", () => {
  const page = reportPage({ ...found, charts: [{ name: "s/g", ...numbers }] }, SPAN.to, words);
  const read = new DOMParser().parseFromString(page, "text/html");
  // The border is a third of the axis away from its beginning.
  expect(read.querySelectorAll("svg rect")[1]?.getAttribute("width")).toBe((8 + 744 / 3).toFixed(1));
  expect(read.querySelector("svg rect title")?.textContent).toBe("report.border");
  const notes = [...read.querySelectorAll("figure ~ .note")].map((note) => note.textContent);
  expect(notes.slice(0, 3)).toEqual([
    "range.by.analytics.before 1h 2026-11-30 10:00 UTC 2026-11-30 10:20 UTC",
    "range.demo ",
    `range.missing ${HOSTILE}`,
  ]);
});

test("of the whole system only the last hour is there, and the report says so", () => {
  const hour = { ...history, summary: null, border_at: null };
  const charts = [{ name: "", ...numbers, history: hour }];
  const early = { from: "2026-11-30T08:00:00Z", to: SPAN.to };
  const text = "report.system_hour 2026-11-30 10:00 UTC 2026-11-30 11:00 UTC";
  expect(reportPage({ ...found, span: early, charts }, SPAN.to, words)).toContain(text);
  expect(reportPage({ ...found, charts }, SPAN.to, words)).not.toContain("report.system_hour");
});

test("events that are no longer kept are named", () => {
  const span = { from: "2026-08-20T00:00:00Z", to: "2026-09-10T00:00:00Z" };
  expect(reportPage({ ...found, span }, SPAN.to, words)).toContain("report.events_kept 90");
  expect(reportPage(found, SPAN.to, words)).not.toContain("report.events_kept");
});

test("groups of the most events get charts", () => {
  const of = (group: string) => event({ subject: "s", group });
  expect(concernedGroups([of("a"), of("b"), of("b"), event({ group: null })]).map(({ group }) => group)).toEqual([
    "b",
    "a",
  ]);
});

test("reads at most a number of events, and says that there are more; numbers that can't be read are named", async () => {
  const many = Array.from({ length: 500 }, (_, index) =>
    event({ id: String(index), subject: "s", group: `g${index % 9}` }),
  );
  const { asked } = answer({ "GET /api/v1/events/": { results: many, next: "more" } });
  const all = await collect(SPAN, false, new AbortController().signal);
  expect([all.events.rows.length, all.events.hasMore, all.audit]).toEqual([ROWS_MAX, true, null]);
  expect(asked.filter(({ url }) => url.pathname.endsWith("/events/"))).toHaveLength(2);
  expect(all.charts).toHaveLength(1 + GROUPS_MAX);
  expect(all.charts.every(({ reason }) => Boolean(reason))).toBe(true);
  expect(all.groupsLeftOut).toBe(3);
});

test("numbers of the span are asked for, of the whole system those of the last hour", async () => {
  const { asked } = answer({
    "GET /api/v1/events/": { results: [event({ subject: "s", group: "g" })], next: null },
    "GET /api/v1/history/": history,
  });
  const all = await collect(SPAN, false, new AbortController().signal);
  const queries = asked.filter(({ url }) => url.pathname.endsWith("/history/"));
  expect(queries.map(({ url }) => Object.fromEntries(url.searchParams))).toEqual([
    {},
    { subject: "s", group: "g", ...SPAN },
  ]);
  expect(all.charts.map(({ name, at }) => [name, at.length])).toEqual([
    ["", 3],
    ["s/g", 3],
  ]);
});
