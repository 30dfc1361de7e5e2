import { act, screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import BrokersPage from "@/features/brokers/BrokersPage";
import { brokerGroup, liveNode } from "@/features/brokers/samples.testing";
import { setLanguage } from "@/i18n";
import { me } from "@/test/me";
import { answer, mount } from "@/test/mount";

const ME = me({ username: "olga", role: "admin", rights: ["read", "change_cluster"], teams: [] });
const page = (...results: unknown[]) => ({ results, next: null, previous: null });
let sockets: { onmessage: ((event: { data: string }) => void) | null }[] = [];

function tell(message: unknown) {
  act(() => {
    for (const socket of sockets) socket.onmessage?.({ data: JSON.stringify(message) });
  });
}

function snapshot(state: unknown) {
  tell({ type: "snapshot", version: 1, at: "2026-11-21T10:00:00Z", state });
}

const AT_WORK = {
  broker_groups: { g1: { kind: "broker", state: "read_write", operator_state: "normal" } },
  nodes: { "g1-a": liveNode("g1-a", "g1", { send_rate: 12, pull_rate: null }) },
  metaservers: { "10.0.0.9:20880": { is_heard: true, seen_at: "2026-11-21T10:00:00Z" } },
};

beforeEach(() => {
  sockets = [];
  vi.stubGlobal(
    "WebSocket",
    class {
      onmessage = null;
      onclose = null;
      constructor() {
        sockets.push(this);
      }
      close() {
        return;
      }
    },
  );
});

afterEach(() => setLanguage("en"));

/** The group's card in the drawing. */
async function card(): Promise<HTMLElement> {
  const found = await waitFor(() => {
    const element = document.querySelector<HTMLElement>("[data-group=g1]");
    expect(element).not.toBeNull();
    return element;
  });
  return found as HTMLElement;
}

test("before anything is live, states are as they were read and numbers unknown", async () => {
  answer({ "GET /api/v1/me/": ME, "GET /api/v1/broker-groups/": page(brokerGroup("g1")) });
  await mount(BrokersPage, "/brokers");
  const group = await card();
  expect(group.querySelector("[data-verdict]")).toHaveAttribute("data-verdict", "read_write");
  expect(group.querySelector("[data-rate=send_rate]")).toHaveTextContent("—");
  expect(document.querySelector("[data-metaservers]")).toHaveTextContent("none known");
});

test("a node that goes away is seen going and coming back, and its numbers are unknown meanwhile", async () => {
  answer({ "GET /api/v1/me/": ME, "GET /api/v1/broker-groups/": page(brokerGroup("g1")) });
  await mount(BrokersPage, "/brokers");
  const group = await card();
  snapshot(AT_WORK);
  expect(within(group).getByText("12")).toBeInTheDocument();
  expect(group.querySelector("[data-rate=pull_rate]")).toHaveTextContent("—");
  expect(document.querySelector("[data-metaserver]")).toHaveTextContent("reachable");

  const delta = (set: unknown) => ({ type: "delta", version: 2, at: "2026-11-21T10:00:08Z", delta: set });
  const away = { is_measured: false, state: null, send_rate: null, reason: "node g1-a: connection refused", at: null };
  tell(
    delta({
      nodes: { gone: [], set: { "g1-a": away } },
      broker_groups: { gone: [], set: { g1: { state: "offline" } } },
    }),
  );
  expect(within(group).getByText("offline")).toBeInTheDocument();
  expect(within(group).getByText("not responding")).toBeInTheDocument();
  expect(within(group).getByText("node g1-a: connection refused")).toBeInTheDocument();
  expect(group.querySelector("[data-rate=send_rate]")).toHaveTextContent("—");
  const row = document.querySelector("[data-row=g1]");
  expect(row?.querySelector("[data-verdict]")).toHaveAttribute("data-verdict", "offline");
  expect(row?.querySelector("[data-cell=nodes]")).toHaveTextContent("0 of 1");

  snapshot(AT_WORK);
  expect(within(group).queryByText("offline")).toBeNull();
  expect(row?.querySelector("[data-cell=nodes]")).toHaveTextContent("1 of 1");
});

test("the master of a delay group has rates, and a slave, which delivers nothing, has none", async () => {
  answer({
    "GET /api/v1/me/": ME,
    "GET /api/v1/broker-groups/": page(brokerGroup("g1", { kind: "delay", nodes: [] })),
  });
  await mount(BrokersPage, "/brokers");
  const group = await card();
  const node = { kind: "delay", pending: 7, delivered_per_second: 2 };
  const slave = { kind: "delay", is_master: false, state: null, pending: null, delivered_per_second: null };
  snapshot({ ...AT_WORK, nodes: { "g1-a": liveNode("g1-a", "g1", node), "g1-b": liveNode("g1-b", "g1", slave) } });
  const rates = (id: string) =>
    [...group.querySelectorAll(`[data-node=${id}] [data-rate]`)].map((rate) => rate.getAttribute("data-rate"));
  expect(rates("g1-a")).toEqual(["delivered_per_second", "pending"]);
  expect(rates("g1-b")).toEqual([]);
});

test("why a node accepts no sends is shown in the language of the page", async () => {
  answer({ "GET /api/v1/me/": ME, "GET /api/v1/broker-groups/": page(brokerGroup("g1")) });
  await mount(BrokersPage, "/brokers");
  const text = "read only: 2 copies are required, 1 is in sync";
  const why = { code: "one_in_sync", values: { required: 2, in_sync: 1 }, text: "2 copies are required, 1 is in sync" };
  const refusing = { state: "read_only", state_reason: text, state_why: { code: "refuses", values: { why }, text } };
  const group = await card();
  snapshot({ ...AT_WORK, nodes: { "g1-a": liveNode("g1-a", "g1", refusing) } });
  expect(group.querySelector("[data-reason]")).toHaveTextContent(text);
  await act(() => setLanguage("zh"));
  expect(group.querySelector("[data-reason]")).toHaveTextContent("只读：需要 2 个副本，已同步 1 个");
  snapshot({ ...AT_WORK, nodes: { "g1-a": liveNode("g1-a", "g1", { ...refusing, state_why: null }) } });
  await waitFor(() =>
    expect(group.querySelector("[data-reason]")).toHaveTextContent("只读：需要 2 个副本，已同步 1 个"),
  );
});

test("a group is announced after its dry run, and then one is told how to start its node", async () => {
  const change = { target: "g9", is_change: true, before: null, after: { kind: "delay" }, version: "1", notes: [] };
  const { asked } = answer({
    "GET /api/v1/me/": ME,
    "GET /api/v1/broker-groups/": page(brokerGroup("g1")),
    "POST /api/v1/broker-groups/": change,
  });
  await mount(BrokersPage, "/brokers");
  await userEvent.click(await screen.findByRole("button", { name: "Add group" }));
  const dialog = await screen.findByRole("dialog");
  await userEvent.type(within(dialog).getByLabelText(/^Name/), "g9");
  await userEvent.selectOptions(within(dialog).getByLabelText("Kind"), "delay");
  await userEvent.click(within(dialog).getByRole("button", { name: "Preview" }));
  await userEvent.click(await within(dialog).findByRole("button", { name: "Add group" }));
  expect(await screen.findByText(/-m delay_node --broker-group g9 /)).toBeInTheDocument();
  const posted = asked.filter(({ method }) => method === "POST");
  expect(posted.map(({ url }) => url.searchParams.get("dry_run"))).toEqual(["true", "false"]);
  expect(posted[1]?.body).toEqual({ name: "g9", kind: "delay", description: "", reason: "" });
});

test("whoever may not change the cluster is not offered to", async () => {
  answer({
    "GET /api/v1/me/": { ...ME, role: "viewer", rights: ["read"] },
    "GET /api/v1/broker-groups/": page(brokerGroup("g1")),
  });
  await mount(BrokersPage, "/brokers");
  await card();
  expect(screen.queryByRole("button", { name: "Add group" })).toBeNull();
});

test("an empty cluster teaches how its first node is started", async () => {
  answer({ "GET /api/v1/me/": ME, "GET /api/v1/broker-groups/": page() });
  await mount(BrokersPage, "/brokers");
  expect(await screen.findByText(/-m broker_node --broker-group g1 /)).toBeInTheDocument();
});

test("a node names its damaged ranges and the messages that are lost to them", async () => {
  answer({ "GET /api/v1/me/": ME, "GET /api/v1/broker-groups/": page(brokerGroup("g1")) });
  await mount(BrokersPage, "/brokers");
  const group = await card();
  snapshot({ ...AT_WORK, nodes: { "g1-a": liveNode("g1-a", "g1", { damaged_ranges: 1, withheld: 1_200 }) } });
  expect(await within(group).findByText("1 corrupted range")).toBeVisible();
  expect(within(group).getByText("1,200 messages withheld")).toBeVisible();
  snapshot({ ...AT_WORK, nodes: { "g1-a": liveNode("g1-a", "g1", { damaged_ranges: 0, withheld: 0 }) } });
  await waitFor(() => expect(group.querySelector("[data-withheld]")).toBeNull());
});

test("each broker group has its copies in sync, with a warning when some are missing", async () => {
  const two = { members: ["a", "b"], copies: 2, in_sync: ["a", "b"], in_sync_min_in_force: 2 };
  answer({
    "GET /api/v1/me/": ME,
    "GET /api/v1/broker-groups/": page(
      brokerGroup("g1", two),
      brokerGroup("g2", { ...two, in_sync: ["a"], in_sync_min_in_force: 1 }),
      brokerGroup("g3", { ...two, in_sync: ["a"] }),
      brokerGroup("g4", { members: [], in_sync: [] }),
      brokerGroup("d1", { ...two, kind: "delay", in_sync: ["a"] }),
    ),
  });
  await mount(BrokersPage, "/brokers");
  const cell = async (name: string) => {
    const found = await waitFor(() => {
      const element = document.querySelector<HTMLElement>(`[data-row="${name}"] [data-cell="copies"]`);
      expect(element).not.toBeNull();
      return element;
    });
    return found as HTMLElement;
  };
  expect(await cell("g1")).toHaveTextContent("2 of 2");
  expect((await cell("g1")).querySelector("[data-copies]")).toHaveAttribute("data-copies", "complete");
  expect(await cell("g2")).toHaveTextContent("1 of 2 · copies missing");
  expect(await cell("g3")).toHaveTextContent("1 of 2 · below minimum");
  expect(await cell("g4")).toHaveTextContent("—");
  expect(await cell("d1")).toHaveTextContent("1 of 2 · below minimum");
});
