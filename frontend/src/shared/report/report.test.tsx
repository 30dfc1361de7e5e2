import { afterEach, expect, test, vi } from "vitest";
import type { Event } from "@/api/events";
import { answer } from "@/test/mount";
import { collect, concernedGroups, GROUPS_MAX, ROWS_MAX, type Collected } from "@/shared/report/collect";
import { reportPage, type Words } from "@/shared/report/page";
import { wrongSpan, SPAN_DAYS_MAX } from "@/shared/report/span";
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
  sentence: ({ kind, target }) => `${kind} of ${target}`,
  reason: ({ reason }) => reason,
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
const found: Collected = {
  span: SPAN,
  events: { rows: [event({})], hasMore: false },
  audit: { rows: [entry as NonNullable<Collected["audit"]>["rows"][number]], hasMore: true },
  charts: [
    { name: "", at: [AT, AT + 10], fields: { send_rate: [1, 2], lag: [null, 3] }, reason: null },
    { name: `${HOSTILE}/${HOSTILE}`, at: [], fields: {}, reason: HOSTILE },
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
  const markers = [
    { at: 5, label: "in" },
    { at: 50, label: "out" },
  ];
  const { text } = chart("x", [0, 10], [{ label: "a", values: [1, 2] }], markers, String);
  expect([text.includes("<title>in</title>"), text.includes("out")]).toEqual([true, false]);
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
