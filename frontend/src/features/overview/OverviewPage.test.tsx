import { act, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test } from "vitest";
import OverviewPage from "@/features/overview/OverviewPage";
import { loadTexts, NAMESPACES, setLanguage } from "@/i18n";
import { fakeFeeds, snapshot } from "@/test/feeds";
import { me } from "@/test/me";
import { answer, mount } from "@/test/mount";

const OVERVIEW = {
  subjects: 0,
  consumer_groups: 0,
  broker_groups: { read_write: 1 },
  nodes: 1,
  subjects_moving: 0,
  alerts_firing: {},
  jobs_late: [],
  measured_at: "2026-11-21T10:00:00Z",
  unmeasured_reason: null,
  send_rate: 0,
  ack_rate: 0,
  lag: 0,
  known: null,
  worst: [],
};
const OFFLINE = { broker_groups: { g1: { kind: "broker", state: "offline", operator_state: "normal" } } };
let feeds: ReturnType<typeof fakeFeeds>;

beforeEach(() => {
  feeds = fakeFeeds();
});

/** Answers that were given are drawn: what is not drawn now, waits for something else. */
async function settled() {
  await act(async () => {
    for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setTimeout(resolve));
  });
}

const LAG = "[data-tile=Lag]";
const NO_ALERTS = { results: [], next: null, previous: null };

test("the page waits for the state of the nodes", async () => {
  answer({ "GET /api/v1/overview/": OVERVIEW, "GET /api/v1/alerts/": NO_ALERTS });
  await mount(OverviewPage);
  await settled();
  expect(screen.queryByText(/All systems normal/)).toBeNull();
  expect(document.querySelector("[data-tile]")).toBeNull();
  feeds[0]?.say(snapshot(OFFLINE));
  expect(screen.queryByText(/All systems normal/)).toBeNull();
  expect(document.querySelector("[data-attention='1']")).toHaveTextContent("Needs attention: 1 critical.");
  expect(document.querySelector("[data-issue=group_offline]")).not.toBeNull();
  expect(document.querySelector(LAG)).not.toBeNull();
});

const ALERT = {
  id: "1",
  rule: "lag",
  kind: "lag",
  target: "orders/billing",
  severity: "critical",
  state: "firing",
  owner: "sales",
  threshold: 10,
  value: 40,
  last_value: 50,
  retries: null,
  reason: null,
  since: "2026-11-21T10:00:00Z",
  is_silenced: false,
};

test("the page comes with the names of alerts, critical ones first, and how many more there are", async () => {
  let tellAlerts: (alerts: unknown) => void = () => undefined;
  const alerts = new Promise((resolve) => (tellAlerts = resolve));
  answer({
    "GET /api/v1/overview/": { ...OVERVIEW, subjects: 1, alerts_firing: { critical: 1, warning: 8 } },
    "GET /api/v1/alerts/": () => alerts,
    "GET /api/v1/flow/": NO_FLOW,
    "GET /api/v1/events/": { results: [], next: null, notes: [] },
  });
  await mount(OverviewPage);
  feeds[0]?.say(snapshot({}));
  await settled();
  expect(document.querySelector("[data-tile]")).toBeNull();
  const warnings = Array.from({ length: 8 }, (_, n) => ({ ...ALERT, id: `w${n}`, severity: "warning" }));
  tellAlerts({ ...NO_ALERTS, results: [ALERT, ...warnings] });
  const [first, ...others] = await waitFor(() => {
    const lines = [...document.querySelectorAll("[data-alert]")];
    expect(lines).not.toHaveLength(0);
    return lines;
  });
  expect([first?.getAttribute("data-severity"), others.length]).toEqual(["critical", 3]);
  expect(first).toHaveTextContent("orders/billing");
  expect(first).toHaveTextContent("50 (above 10)");
  expect(first).toHaveTextContent("owner: sales");
  expect(screen.getByText("5 more alerts")).toBeInTheDocument();
  expect(document.querySelector("[data-attention='9']")).toHaveTextContent("1 critical, 8 warnings");
});

test("an alert is silenced from here, by those who may", async () => {
  answer({
    "GET /api/v1/me/": me({ teams: [], rights: ["read", "change_alerts"] }),
    "GET /api/v1/overview/": { ...OVERVIEW, subjects: 1, alerts_firing: { critical: 1 } },
    "GET /api/v1/alerts/": { ...NO_ALERTS, results: [ALERT] },
    "GET /api/v1/flow/": NO_FLOW,
    "GET /api/v1/events/": { results: [], next: null, notes: [] },
  });
  await mount(OverviewPage);
  feeds[0]?.say(snapshot({}));
  await userEvent.click(await screen.findByRole("button", { name: /orders\/billing/ }));
  expect(await screen.findByRole("dialog")).toHaveTextContent("orders/billing");
});

const NO_FLOW = {
  at: null,
  reason: null,
  unreachable: {},
  applications: [],
  subjects: [],
  groups: [],
  links: [],
};

test("a page that can't have live numbers shows the others", async () => {
  answer({ "GET /api/v1/overview/": OVERVIEW, "GET /api/v1/alerts/": NO_ALERTS });
  await mount(OverviewPage);
  feeds[0]?.end(4403);
  expect(await screen.findByText(/All systems normal/)).toBeInTheDocument();
});

const CAUSE = {
  code: "node_silent",
  values: { node: "g1-a", seconds: 5.26, why: { code: "connection_refused", values: {}, text: "connection refused" } },
  text: "in English",
};

test("an alert that fires is there with its cause as soon as the live state has it", async () => {
  let firing: unknown[] = [];
  let reads = 0;
  answer({
    "GET /api/v1/overview/": { ...OVERVIEW, subjects: 1 },
    "GET /api/v1/alerts/": () => {
      reads += 1;
      return { ...NO_ALERTS, results: firing };
    },
    "GET /api/v1/flow/": NO_FLOW,
    "GET /api/v1/events/": { results: [], next: null, notes: [] },
  });
  await mount(OverviewPage);
  feeds[0]?.say(snapshot({ alerts: { firing: { critical: 0, warning: 0, changed_at: null } } }));
  await settled();
  expect(reads).toBe(1);
  firing = [
    { ...ALERT, why: CAUSE },
    { ...ALERT, id: "2", why: null },
  ];
  const fired = { critical: 1, changed_at: "2026-11-21T10:00:00.000Z" };
  const delta = { alerts: { gone: [], set: { firing: fired } } };
  feeds[0]?.say({ type: "delta", at: "2026-11-21T10:00:01Z", stream: "s", version: 2, delta });
  await waitFor(() => {
    expect(document.querySelectorAll("[data-alert]")).toHaveLength(2);
  });
  expect(reads).toBe(2);
  const [cause, ...others] = document.querySelectorAll("[data-cause]");
  expect(cause).toHaveTextContent("node g1-a has not responded for 5.3 s: connection refused");
  expect(others).toEqual([]);
});

test("why a node can't be measured is shown in the viewer's language", async () => {
  answer({ "GET /api/v1/overview/": OVERVIEW, "GET /api/v1/alerts/": NO_ALERTS });
  await mount(OverviewPage);
  const node = { node_id: "g1-a", broker_group: "g1", is_measured: false, reason: "no", why: CAUSE.values.why };
  feeds[0]?.say(snapshot({ nodes: { "g1-a": node } }));
  await screen.findByText("Node g1-a can't be measured: connection refused");
  await loadTexts(NAMESPACES);
  await setLanguage("zh");
  await screen.findByText("无法测量节点 g1-a：连接被拒绝");
  await setLanguage("en");
});
