import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, expect, test } from "vitest";
import AnalyticsPage from "@/features/analytics/AnalyticsPage";
import { setLanguage } from "@/i18n";
import { answer, mount } from "@/test/mount";

afterEach(() => setLanguage("en"));

const LAG = "/api/v1/analytics/tables/lag/";
const run = { id: "12", job: "lag", state: "succeeded", finished_at: null, watermark_at: null, missing: [] };
const row = (subject: string, group: string, time_lag_seconds_max: number | null) => ({
  at: "2026-11-21T10:00:00Z",
  subject,
  group,
  lag_messages_max: null,
  time_lag_seconds_max,
  run: "12",
});

function page(results: readonly object[], more: object = {}) {
  return {
    table: "lag",
    state: "filled",
    as_of: "2026-11-21T11:00:00Z",
    step: "minute",
    step_seconds: 60,
    from_at: "2026-11-21T09:00:00Z",
    to_at: "2026-11-21T11:00:00Z",
    kept_since: "2026-11-14T00:00:00Z",
    runs: [run],
    missing: [],
    holes: 0,
    late_rows: 0,
    omission: null,
    scores: [],
    results,
    next: null,
    ...more,
  };
}

const RANKING = `${LAG}ranking/`;
/** A ranking of these rows, each with itself as history. */
function ranking(results: readonly ReturnType<typeof row>[], more: object = {}) {
  const ranked = results.map((one) => ({
    row: one,
    extreme: one.time_lag_seconds_max ?? 0,
    history: [{ at: one.at, value: one.time_lag_seconds_max }],
  }));
  return { ...page([], more), total: results.length, results: ranked };
}

const names = {
  "GET /api/v1/subjects/": { results: [{ name: "order.paid" }], next: null },
  "GET /api/v1/consumer-groups/": { results: [{ subject: "order.paid", name: "billing" }], next: null },
};

test("with nothing chosen, the group that stands out most is drawn, and each group has a row", async () => {
  const { asked } = answer({
    ...names,
    [`GET ${RANKING}`]: ranking([row("order.paid", "billing", 90), row("a", "other", 3)]),
    [`GET ${LAG}`]: page([
      row("order.paid", "billing", 90),
      { ...row("order.paid", "billing", 80), at: "2026-11-21T10:01:00Z" },
    ]),
  });
  await mount(AnalyticsPage, "/analytics");
  expect(await screen.findByText("order.paid · billing")).toBeInTheDocument();
  expect(await screen.findByRole("slider", { name: "Time lag" })).toBeInTheDocument();
  const series = asked.find(({ url }) => url.searchParams.get("ordering") === "at")?.url.searchParams;
  expect(series?.get("subject")).toBe("order.paid");
  expect(series?.get("group")).toBe("billing");
  const from = Date.parse(series?.get("from") ?? "");
  expect(Date.parse(series?.get("to") ?? "") - from).toBe(86_400_000);
  expect(screen.getByRole("link", { name: "job lag, run #12" })).toHaveAttribute("href", "/analytics?tab=runs&run=12");
  const rows = screen.getAllByRole("row").slice(1);
  expect(rows.map((one) => one.querySelector("[data-cell=extreme]")?.textContent)).toEqual(["1m 30s", "3s"]);
  expect(rows[0]?.querySelector("[data-cell=lag_messages_max]")).toHaveTextContent("—");
  expect(asked.find(({ url }) => url.pathname === RANKING)?.url.searchParams.get("by")).toBe("-time_lag_seconds_max");
});

test("a chosen subject and group are asked for, in the time that the address says", async () => {
  const { asked } = answer({ ...names, [`GET ${LAG}`]: page([row("order.paid", "billing", 1)]) });
  await mount(
    AnalyticsPage,
    "/analytics?subject=order.paid&group=billing&range=custom&from=2026-11-01T00:00:00Z&to=2026-11-02T00:00:00Z",
    "/analytics",
  );
  expect(await screen.findByText("Showing:")).toBeInTheDocument();
  const tables = asked.filter(({ url }) => url.pathname === LAG).map(({ url }) => url.searchParams);
  expect(tables.length).toBeGreaterThan(0);
  for (const query of tables) {
    expect(query.get("subject")).toBe("order.paid");
    expect(query.get("from")).toBe("2026-11-01T00:00:00.000Z");
  }
});

test("a long series is read on in the range and step of its first page", async () => {
  const { asked } = answer({
    ...names,
    [`GET ${LAG}`]: (url: URL) =>
      page([row("order.paid", "billing", 1)], {
        next: url.searchParams.get("ordering") === "at" && !url.searchParams.has("cursor") ? "c2" : null,
      }),
  });
  await mount(AnalyticsPage, "/analytics?subject=order.paid&group=billing", "/analytics");
  await waitFor(() => expect(asked.some(({ url }) => url.searchParams.get("cursor") === "c2")).toBe(true));
  const next = asked.find(({ url }) => url.searchParams.get("cursor") === "c2")?.url.searchParams;
  expect([next?.get("from"), next?.get("step")]).toEqual(["2026-11-21T09:00:00Z", "minute"]);
});

test("a table no run has filled teaches, and shows no empty list", async () => {
  answer({ ...names, [`GET ${RANKING}`]: ranking([], { state: "no_run_yet", as_of: null, runs: [] }) });
  await mount(AnalyticsPage, "/analytics");
  expect(await screen.findByText("No analytics yet")).toBeInTheDocument();
  expect(screen.getByText(/manage.py analytics/)).toBeInTheDocument();
  expect(screen.queryByRole("table")).not.toBeInTheDocument();
});

test("a time range without values says so, and what to do", async () => {
  answer({ ...names, [`GET ${RANKING}`]: ranking([]) });
  await mount(AnalyticsPage, "/analytics");
  expect(await screen.findByText("No values in this time range. Choose a longer one.")).toBeInTheDocument();
});

test("made-up rows are said to be", async () => {
  answer({ ...names, [`GET ${RANKING}`]: ranking([row("a", "b", 1)], { runs: [{ ...run, job: "demo" }] }) });
  await mount(AnalyticsPage, "/analytics");
  expect(await screen.findByText("Demo data")).toBeInTheDocument();
});

test("rows that lack a broker group, gaps and late rows are named", async () => {
  const more = { missing: ["g2", "g3"], holes: 2, late_rows: 70 };
  answer({ ...names, [`GET ${RANKING}`]: ranking([row("a", "b", 1)], more) });
  await mount(AnalyticsPage, "/analytics");
  expect(await screen.findByText("Partial: without g2, g3")).toBeInTheDocument();
  expect(screen.getByText("2 gaps")).toBeInTheDocument();
  expect(screen.getByText("70 late rows")).toBeInTheDocument();
});

test.each([
  [
    "en",
    /up to 220,000 of 240,000 are left out at a time, those with the lowest “Max lag”\. Hours and days are complete\./,
    /left out/,
  ],
  ["zh", /240,000 行中最多省略 220,000 行，即“最大堆积”最低的行。小时和天的数据完整。/, /省略/],
] as const)(
  "the page shows how many rows are left out (%s), and no sentence when none is",
  async (language, sentence, word) => {
    const omission = { ranked_by: "lag_messages_max", left_out_count: 220_000, rows_count: 240_000, moments_count: 60 };
    answer({
      ...names,
      [`GET ${RANKING}`]: ranking([row("a", "b", 1)], { omission }),
      [`GET ${LAG}`]: page([row("a", "b", 1)], { omission }),
    });
    const { unmount } = await mount(AnalyticsPage, "/analytics");
    await setLanguage(language);
    expect(await screen.findByText(sentence)).toBeInTheDocument();
    unmount();
    answer({ ...names, [`GET ${RANKING}`]: ranking([row("a", "b", 1)]), [`GET ${LAG}`]: page([row("a", "b", 1)]) });
    await mount(AnalyticsPage, "/analytics");
    expect(await screen.findByText("a · b")).toBeInTheDocument();
    expect(screen.queryByText(word)).toBeNull();
  },
);

const score = {
  scored: "drain_forecasts",
  case_class: "below_2_minutes",
  days: 30,
  cases_count: 100,
  held_count: 81,
  below_count: 7,
  above_count: 12,
  width_ratio_mean: 9,
  held_ratio: 0.81,
  is_trusted: true,
  target_ratio: 0.8,
};
const falling = { ...score, case_class: "falling_from_2_hours", held_ratio: 0.61, is_trusted: false };
const young = { ...score, case_class: "from_2_hours", cases_count: 4, held_ratio: null, is_trusted: false };
const ofDisks = { ...score, scored: "disk_forecasts", case_class: "all", cases_count: 0, held_ratio: null };

test.each([
  [
    "en",
    /last 30 days.*Target: 80% within/,
    [
      /Below 2 min.*81%.*used by alerts/,
      /2 h or more, falling.*61%.*not used by alerts: outside/,
      /2 h or more4not known yet.*fewer than 30/,
    ],
  ],
  [
    "zh",
    /最近 30 天.*80% 落在区间内/,
    [
      /不足 2 分钟.*81%.*用于告警/,
      /2 小时及以上，正在下降.*61%.*不用于告警：命中率/,
      /2 小时及以上4尚不清楚.*不足 30 个/,
    ],
  ],
] as const)(
  "forecasts say of each class what held, or that it is not known yet (%s)",
  async (language, sentence, texts) => {
    answer({
      ...names,
      "GET /api/v1/analytics/tables/drain_forecasts/ranking/": ranking([], { scores: [score, young, falling] }),
      "GET /api/v1/analytics/tables/disk_forecasts/ranking/": ranking([], {
        scores: [{ ...ofDisks, is_trusted: false }],
      }),
    });
    await mount(AnalyticsPage, "/analytics?tab=forecast", "/analytics");
    await setLanguage(language);
    expect(await screen.findByText(sentence, { selector: "[data-score=drain_forecasts] > *" })).toBeInTheDocument();
    const rows = screen.getAllByRole("row").map((one) => one.textContent);
    for (const text of texts) expect(rows.filter((one) => text.test(one))).toHaveLength(1);
    const disks = document.querySelector("[data-score=disk_forecasts]");
    expect(disks).toHaveTextContent(language === "en" ? "not known yet" : "尚不清楚");
  },
);

test("a forecast without an interval is learning, and null is shown as what it means", async () => {
  const forecast = {
    at: "2026-11-21T10:00:00Z",
    subject: "order.paid",
    outlook: "unknown",
    lag_messages_last: 50,
    drain_seconds_low: null,
    drain_seconds_high: null,
    run: "12",
  };
  const rows = [
    { ...forecast, group: "new", case_class: "below_2_hours", drain_seconds_mid: 60 },
    { ...forecast, group: "stuck", case_class: "from_2_hours", outlook: "never", drain_seconds_mid: null },
    { ...forecast, group: "fresh", case_class: "none", drain_seconds_mid: null },
  ];
  const ranked = rows.map((one) => ({ row: one, extreme: 50, history: [{ at: one.at, value: 50 }] }));
  answer({
    ...names,
    "GET /api/v1/analytics/tables/drain_forecasts/ranking/": { ...page([]), total: 3, results: ranked },
    "GET /api/v1/analytics/tables/drain_forecasts/": page(rows),
    [`GET ${LAG}`]: page([]),
  });
  await mount(AnalyticsPage, "/analytics?tab=forecast", "/analytics");
  const learning = await screen.findByText("Learning");
  expect(learning.closest("[data-hint]")).toHaveAttribute("data-hint", expect.stringContaining("30 forecasts"));
  const texts = screen.getAllByRole("row").map((one) => one.textContent);
  const found = ["new", "stuck", "fresh"].map((group) => texts.find((text) => text.includes(`order.paid${group}`)));
  expect(found[0]).toMatch(/20 min to 2 h.*——?1m/);
  expect(found[1]).toMatch(/Never2 h or more.*over a dayover a dayover a day/);
  expect(found[2]).toMatch(/UnknownNothing to forecast.*———/);
});

test("a disk that never fills is in the ranking", async () => {
  const disk = {
    at: "2026-11-21T10:00:00Z",
    broker_group: "g1",
    node_id: "g1-a",
    outlook: "never",
    growth_bytes_per_second_mid: -5,
    full_seconds_mid: null,
    run: "12",
  };
  const ranked = [{ row: disk, extreme: null, history: [{ at: disk.at, value: null }] }];
  answer({
    ...names,
    "GET /api/v1/analytics/tables/drain_forecasts/": page([]),
    "GET /api/v1/analytics/tables/drain_forecasts/ranking/": ranking([]),
    "GET /api/v1/analytics/tables/disk_forecasts/": page([]),
    "GET /api/v1/analytics/tables/disk_forecasts/ranking/": { ...page([]), total: 1, results: ranked },
    [`GET ${LAG}`]: page([]),
  });
  await mount(AnalyticsPage, "/analytics?tab=forecast", "/analytics");
  const node = await screen.findByText("g1-a");
  expect(node.closest("tr")?.querySelector("[data-cell=extreme]")).toHaveTextContent("never");
});

test("flags say how many of them are probably false", async () => {
  const of = { ...score, case_class: "all", cases_count: 200, is_trusted: null, target_ratio: null };
  answer({
    ...names,
    "GET /api/v1/analytics/tables/anomalies/ranking/": ranking([], {
      scores: [
        { ...of, scored: "anomalies", held_count: 190, held_ratio: 0.95 },
        { ...of, scored: "anomaly_flags", held_count: 70, held_ratio: 0.35 },
      ],
    }),
  });
  await mount(AnalyticsPage, "/analytics?tab=anomalies", "/analytics");
  expect(
    await screen.findByText("5% of the 200 values compared in the last 30 days were flagged."),
  ).toBeInTheDocument();
  expect(screen.getByText(/65% of the 200 flags .* probably false alarms/)).toBeInTheDocument();
});

test("a run's details are in the address", async () => {
  const whole = {
    ...run,
    state: "failed",
    from_at: null,
    to_at: null,
    inputs: { subjects: 3 },
    tables: ["lag"],
    rows_read: "10",
    rows_written: null,
    missing: ["g2"],
    skipped: { failures: "demo_data" },
    late_rows: "70",
    holes: "3",
    error: "OutOfMemory",
    started_at: "2026-11-21T10:00:00Z",
    finished_at: "2026-11-21T10:00:30Z",
  };
  answer({
    "GET /api/v1/analytics/runs/": { results: [whole], next: null },
    "GET /api/v1/analytics/runs/12/": whole,
  });
  const { address } = await mount(AnalyticsPage, "/analytics?tab=runs", "/analytics");
  await userEvent.click(await screen.findByRole("link", { name: "#12" }));
  const dialog = await screen.findByRole("dialog");
  expect(await within(dialog).findByText(/"subjects": 3/)).toBeInTheDocument();
  expect(within(dialog).getByText("OutOfMemory")).toBeInTheDocument();
  for (const [name, value] of [
    ["Unreachable broker groups", "g2"],
    ["Late rows", "70"],
    ["Gaps", "3"],
    ["Skipped tables", "failures (contains demo data)"],
  ]) {
    expect(within(dialog).getByRole("rowheader", { name }).closest("tr")).toHaveTextContent(value as string);
  }
  expect(address()).toContain("run=12");
});

const DEMO = "GET /api/v1/analytics/demo/";
const me = { rights: ["read", "change_cluster"], role: "admin", teams: [] };
const demo = {
  tables: ["lag", "failures"],
  from_at: "2026-11-08T00:00:00Z",
  to_at: "2026-11-22T10:00:00Z",
  is_replaceable: false,
};

test("demo data is named with its range, and replaced by an administrator", async () => {
  let isReplaceable = false;
  const change = { target: "demo", dry_run: false, is_change: true, before: {}, after: {}, version: "0", notes: [] };
  const { asked } = answer({
    ...names,
    "GET /api/v1/me/": me,
    [`GET ${RANKING}`]: ranking([row("a", "b", 1)], { runs: [{ ...run, job: "demo" }] }),
    [DEMO]: () => ({ ...demo, is_replaceable: isReplaceable }),
    "POST /api/v1/analytics/demo/replace/": () => {
      isReplaceable = true;
      return change;
    },
  });
  await mount(AnalyticsPage, "/analytics");
  const notice = await screen.findByText(/Showing demo data from/);
  expect(notice).toHaveTextContent(/2026-11-08.*2026-11-22/);
  expect(notice).toHaveTextContent("Scheduled runs don't replace it.");
  await userEvent.click(await screen.findByRole("button", { name: "Replace demo data" }));
  const dialog = await screen.findByRole("dialog");
  expect(dialog).toHaveTextContent("each of the 2 tables");
  await userEvent.type(within(dialog).getByLabelText(/Reason/), "real traffic");
  await userEvent.click(within(dialog).getByRole("button", { name: "Replace demo data" }));
  expect(await screen.findByText(/The next run replaces it\./)).toBeInTheDocument();
  const sent = asked.find(({ method }) => method === "POST");
  expect(sent?.body).toEqual({ reason: "real traffic" });
  expect(sent?.url.searchParams.get("dry_run")).toBe("false");
  expect(screen.queryByRole("button", { name: "Replace demo data" })).not.toBeInTheDocument();
});

test("the jobs run now for those who may; a viewer sees the demo data named without actions", async () => {
  const { asked } = answer({
    ...names,
    "GET /api/v1/me/": me,
    [`GET ${LAG}`]: page([row("a", "b", 1)]),
    [DEMO]: { ...demo, tables: [] },
    "POST /api/v1/jobs/analytics/run/": { target: "analytics" },
  });
  const { unmount } = await mount(AnalyticsPage, "/analytics");
  await userEvent.click(await screen.findByRole("button", { name: "Run now: analytics" }));
  expect(await screen.findByText("analytics started")).toBeInTheDocument();
  expect(asked.filter(({ method }) => method === "POST")).toHaveLength(1);
  expect(screen.queryByText(/Showing demo data/)).not.toBeInTheDocument();
  unmount();
  answer({
    ...names,
    "GET /api/v1/me/": { ...me, rights: ["read"], role: "viewer" },
    [`GET ${LAG}`]: page([row("a", "b", 1)]),
    [DEMO]: demo,
  });
  await mount(AnalyticsPage, "/analytics");
  expect(await screen.findByText(/Showing demo data from/)).toBeInTheDocument();
  expect(screen.queryByRole("button", { name: "Replace demo data" })).not.toBeInTheDocument();
  expect(screen.queryByRole("button", { name: "Run now: analytics" })).not.toBeInTheDocument();
});

const RUNNING = { ...run, state: "running", part: 3, parts: 12, started_at: "2026-11-21T10:00:00Z" };

test("a run says which part of all it computes, and since when", async () => {
  const { asked } = answer({ "GET /api/v1/analytics/runs/": { results: [RUNNING], next: null } });
  await mount(AnalyticsPage, "/analytics");
  expect(await screen.findByText(/part 3 of 12 \(16\.7%\) · started/)).toBeInTheDocument();
  expect(screen.getByRole("progressbar", { name: "Progress of the analytics run" })).toHaveAttribute(
    "aria-valuenow",
    String((2 / 12) * 100),
  );
  expect(screen.getByRole("link", { name: "Running: lag" })).toHaveAttribute("href", "/analytics?tab=runs&run=12");
  const query = asked.find(({ url }) => url.pathname.endsWith("/runs/"))?.url.search;
  expect(query).toBe("?state=running&ordering=-id&limit=1");
});

test("how much is to be computed is not known while the nodes are read", async () => {
  const reading = { ...RUNNING, job: "ingest", part: null, parts: null };
  answer({ "GET /api/v1/analytics/runs/": { results: [reading], next: null } });
  await mount(AnalyticsPage, "/analytics");
  expect(await screen.findByRole("link", { name: "Running: reading from the nodes" })).toBeInTheDocument();
  expect(screen.queryByRole("progressbar")).toBeNull();
});

test("no progress is shown while no job runs", async () => {
  answer({ "GET /api/v1/analytics/runs/": { results: [], next: null } });
  await mount(AnalyticsPage, "/analytics");
  await screen.findByRole("heading", { name: "Analytics" });
  expect(document.querySelector("[data-running]")).toBeNull();
});

test("the error of a run is a sentence, with its details folded", async () => {
  const failed = {
    ...RUNNING,
    state: "failed",
    tables: [],
    skipped: {},
    error: "Py4JJavaError: Python worker failed to connect back.\n  at org.apache.spark",
  };
  answer({ "GET /api/v1/analytics/runs/": { results: [failed], next: null } });
  await mount(AnalyticsPage, "/analytics?tab=runs");
  const details = await screen.findByText(/at org\.apache\.spark/);
  expect(details).not.toBeVisible();
});
