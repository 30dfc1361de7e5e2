import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test, vi } from "vitest";
import { Charts } from "@/features/groups/Charts";
import { difference } from "@/features/groups/Differences";
import type { Timelines } from "@/features/groups/timelines";
import { answer, mount, type Answers } from "@/test/mount";

const NOW = Math.floor(Date.now() / 3_600_000) * 3_600;
const iso = (secondsAgo: number) => new Date((NOW - secondsAgo) * 1000).toISOString();
const name = { subject: "orders", group: "billing" };
const timelines: Timelines = {
  group: { at: [NOW - 20, NOW - 10], values: { time_lag_seconds: [1, 1], ack_rate: [2, 2] }, isPending: false },
  lag: [70, 71],
  sent: [3, 3],
};
const SUMMARY = {
  step_seconds: 1_200,
  job: "analytics",
  state: "filled",
  as_of: iso(7_200),
  is_demo: false,
  missing: [],
  omitted_steps_count: 0,
  fields: ["lag", "time_lag_seconds", "pull_rate", "ack_rate"],
};
const FIGURES = {
  lag: { mean: 50, p99: 90, measured_seconds: 600 },
  ack_rate: { mean: 2, p99: 3, measured_seconds: 600 },
};
const HISTORY = {
  from_at: iso(604_800),
  to_at: iso(0),
  step_seconds: 840,
  at: [iso(9_000), iso(7_800), iso(3_600), iso(2_760)],
  fields: { lag: [11, 12, 13, 14], time_lag_seconds: [1, 2, 3, 4], send_rate: [5, 6, 7, 8], ack_rate: [1, 1, 1, 1] },
  reason: null,
  border_at: iso(3_600),
  summary: SUMMARY,
  figures: FIGURES,
};
const RULE = { id: "1", name: "Too far behind", kind: "lag", threshold: 900, severity: "critical" };
const RULES = [RULE, { ...RULE, name: "Behind" }, { ...RULE, name: "Disk", kind: "disk" }];

beforeEach(() => {
  vi.stubGlobal("ResizeObserver", class { observe() {} unobserve() {} disconnect() {} }); // prettier-ignore
});

async function open(search = "", answers: Answers = {}) {
  const { asked } = answer({
    "GET /api/v1/history/": HISTORY,
    "GET /api/v1/events/": { results: [], next: null },
    "GET /api/v1/alert-rules/": { results: RULES, next: null, previous: null },
    ...answers,
  });
  const page = await mount(() => <Charts name={name} timelines={timelines} />, `/groups${search}`, "/groups");
  const history = () => asked.filter(({ url }) => url.pathname.endsWith("/history/"));
  return { asked, page, history };
}

async function numbers() {
  await userEvent.click(await screen.findByRole("button", { name: "Show as table: Lag and time lag" }));
  const table = await screen.findByRole("region", { name: "Lag and time lag" });
  return within(table)
    .getAllByRole("row")
    .map((row) => row.textContent);
}

test("the last hour asks for nothing more; another range is in the address and is read", async () => {
  const { page, history } = await open();
  expect(await screen.findByLabelText("Time shown by the charts")).toHaveValue("1h");
  expect(history()).toHaveLength(0);
  await userEvent.selectOptions(screen.getByLabelText("Time shown by the charts"), "Last 7 days");
  expect(page.address()).toBe("/groups?range=7d");
  await screen.findByText(/^Before .*: the highest value of each 20m, from analytics of /);
  const [first] = history();
  const from = Date.parse(first?.url.searchParams.get("from") ?? "");
  expect(Math.abs(Date.now() - 604_800_000 - from)).toBeLessThan(60_000);
  expect(first?.url.searchParams.has("to")).toBe(false);
  const rows = await numbers();
  expect(rows.some((text) => text.includes("◂ Left of this line: the highest value of each 20m"))).toBe(true);
  // A range of days does not continue live.
  expect(rows.join(" ")).not.toContain("71");
  await userEvent.selectOptions(screen.getByLabelText("Time shown by the charts"), "Last hour");
  expect(page.address()).toBe("/groups");
});

test("a short range continues with what is seen live", async () => {
  await open("?range=6h");
  await screen.findByText(/^Before .*: the highest value of each/);
  const text = (await numbers()).join(" ");
  expect(text).toContain("71");
  expect(text).toContain("12");
});

test("a chosen span is in the address, and one that makes no sense is not sent", async () => {
  const [from, to] = [iso(200_000), iso(100_000)];
  const { page, history } = await open(`?range=${from}/${to}`);
  expect(await screen.findByLabelText("Time shown by the charts")).toHaveValue("custom");
  await waitFor(() => expect(history()[0]?.url.searchParams.get("to")).toBe(to));
  const before = page.address();
  const field = await screen.findByLabelText("From");
  await userEvent.clear(field);
  await userEvent.type(field, "2026-01-01 10:00");
  expect(await screen.findByText("At most 30 days")).toBeVisible();
  expect(page.address()).toBe(before);
});

test("without analytics a sentence says so and what helps", async () => {
  const summary = { ...SUMMARY, state: "no_run_yet", as_of: null, fields: [] };
  await open("?range=24h", { "GET /api/v1/history/": { ...HISTORY, border_at: null, summary } });
  expect(await screen.findByText(/analytics, which has not finished a run yet\. Choose “Run now”/)).toBeVisible();
  expect(screen.getByRole("link", { name: "Open Analytics" })).toHaveAttribute("href", "/analytics?tab=runs");
});

test("a note names what analytics lacks and why numbers are too low", async () => {
  const summary = {
    ...SUMMARY,
    as_of: iso(90_000),
    is_demo: true,
    missing: ["g2"],
    omitted_steps_count: 1_200,
    fields: ["lag"],
  };
  await open("?range=7d", { "GET /api/v1/history/": { ...HISTORY, reason: "Redis is away", summary } });
  await screen.findByText(/Analytics is behind: later values than/);
  expect(screen.getByText("Some of these values are demo data.")).toBeVisible();
  expect(screen.getByText(/^1,200 steps may lack their values: .* with most lag or traffic\./)).toBeVisible();
  expect(screen.getByText(/could not read g2/)).toBeVisible();
  expect(screen.getByText(/does not store: Time lag, Pulled\/s,? and Acked\/s\./)).toBeVisible();
  expect(screen.getByText(/Nothing was measured in the last hour: Redis is away\./)).toBeVisible();
});

test("rules that concern the group are named in its lag chart", async () => {
  const { asked } = await open();
  await numbers();
  expect(await screen.findByText(/Too far behind \(900\), Behind \(900\)\./)).toBeVisible();
  expect(screen.queryByText(/Disk/)).toBeNull();
  const [rules] = asked.filter(({ url }) => url.pathname.endsWith("/alert-rules/"));
  expect(rules?.url.searchParams.get("concerns")).toBe("orders/billing");
});

test("two times are compared when it is asked for, with their differences", async () => {
  const { page, history } = await open("?range=24h", {
    "GET /api/v1/history/": (url: URL) =>
      Date.parse(url.searchParams.get("to") ?? "") < Date.now() - 3_600_000
        ? { ...HISTORY, figures: { ...FIGURES, lag: { mean: 40, p99: 100, measured_seconds: 600 } } }
        : HISTORY,
  });
  await userEvent.click(await screen.findByRole("button", { name: "Compare with another time" }));
  expect(page.address()).toBe("/groups?range=24h&compare=before");
  const found = within(await screen.findByRole("region", { name: "Differences" }));
  expect(await found.findByText("+10 (+25%)")).toBeVisible();
  expect(found.getByText("−10 (−10%)")).toBeVisible();
  const spans = history().map(({ url }) => [url.searchParams.get("from"), url.searchParams.get("to")]);
  const [later, earlier] = spans.slice(-4);
  expect(earlier?.[1]).toBe(later?.[0]);
  expect((await numbers())[0]).toContain("Lag (earlier)");
  await userEvent.selectOptions(screen.getByLabelText("Compared with"), "Before and after a time");
  expect(new URLSearchParams(page.address().split("?")[1]).get("compare")).toMatch(/^\d{4}-.*Z$/);
  await userEvent.click(await screen.findByRole("button", { name: "End comparison" }));
  expect(page.address()).toBe("/groups?range=24h");
  expect(screen.queryByRole("region", { name: "Differences" })).toBeNull();
});

test("a difference has its sign, and no share of nothing", () => {
  expect(difference(100, 150, "count", "en-GB")).toBe("+50 (+50%)");
  expect(difference(4, 1, "duration", "en-GB")).toBe("−3s (−75%)");
  expect(difference(0, 7, "count", "en-GB")).toBe("+7");
  expect(difference(7, 7, "count", "en-GB")).toBe("0 (0%)");
});
