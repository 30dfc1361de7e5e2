import { act, screen } from "@testing-library/react";
import { beforeEach, expect, test } from "vitest";
import OverviewPage from "@/features/overview/OverviewPage";
import { fakeFeeds, snapshot } from "@/test/feeds";
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

test("the page waits for the state of the nodes", async () => {
  answer({ "GET /api/v1/overview/": OVERVIEW });
  await mount(OverviewPage);
  await settled();
  expect(screen.queryByText("All systems normal")).toBeNull();
  expect(document.querySelector("[data-tile]")).toBeNull();
  feeds[0]?.say(snapshot(OFFLINE));
  expect(screen.queryByText("All systems normal")).toBeNull();
  expect(document.querySelector("[data-attention='1']")).not.toBeNull();
  expect(document.querySelector("[data-tile=lag]")).not.toBeNull();
});

test("the page comes with the names of alerts", async () => {
  let tellAlerts: (alerts: unknown) => void = () => undefined;
  const alerts = new Promise((resolve) => (tellAlerts = resolve));
  answer({
    "GET /api/v1/overview/": { ...OVERVIEW, alerts_firing: { critical: 1 } },
    "GET /api/v1/alerts/": () => alerts,
  });
  await mount(OverviewPage);
  feeds[0]?.say(snapshot({}));
  await settled();
  expect(document.querySelector("[data-tile]")).toBeNull();
  tellAlerts({
    results: [{ id: 1, rule: "lag", target: "billing of orders", severity: "critical" }],
    next: null,
    previous: null,
  });
  expect(await screen.findByText(/billing of orders/)).toBeInTheDocument();
  expect(document.querySelector("[data-tile=lag]")).not.toBeNull();
});

test("a page that can't have live numbers shows the others", async () => {
  answer({ "GET /api/v1/overview/": OVERVIEW });
  await mount(OverviewPage);
  feeds[0]?.end(4403);
  expect(await screen.findByText("All systems normal")).toBeInTheDocument();
});
