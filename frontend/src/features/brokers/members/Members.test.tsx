import { act, screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import BrokerPage from "@/features/brokers/BrokerPage";
import type { BrokerGroupDetail } from "@/features/brokers/queries";
import { brokerGroup, groupDetail, liveNode, member, replicatedGroup } from "@/features/brokers/samples.testing";
import { setLanguage } from "@/i18n";
import { me } from "@/test/me";
import { answer, mount, type Answers } from "@/test/mount";

const ME = me({ username: "olga", role: "admin", rights: ["read", "change_cluster"], teams: [] });
const AT = "/api/v1/broker-groups/g1/";

let sockets: { onmessage: ((event: { data: string }) => void) | null }[] = [];

function snapshot(state: unknown) {
  const data = JSON.stringify({ type: "snapshot", version: 1, at: "2026-11-21T10:00:00Z", state });
  act(() => {
    for (const socket of sockets) socket.onmessage?.({ data });
  });
}

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

/** The page of a group, with the numbers of its nodes, and what else is answered. */
async function opened(group: BrokerGroupDetail, answers: Answers = {}, user: unknown = ME) {
  const requests = answer({
    "GET /api/v1/me/": user,
    [`GET ${AT}`]: () => Response.json(group, { headers: { ETag: '"v7"' } }),
    "GET /api/v1/history/": { at: [], fields: {}, reason: "nothing of it was measured", step_seconds: 10 },
    "GET /api/v1/subjects/": { results: [], next: null, previous: null },
    ...answers,
  });
  await mount(BrokerPage, "/brokers/g1", "/brokers/$name");
  const section = within(await screen.findByRole("region", { name: "Members" }));
  return { ...requests, section, posts: () => requests.asked.filter(({ method }) => method === "POST") };
}

function stats(nodeId: string, replication: object) {
  return { ...brokerGroup("g1").nodes[0], node_id: nodeId, unknown_reason: null, stats: { replication } };
}

function row(nodeId: string) {
  const found = document.querySelector<HTMLElement>(`[data-row="${nodeId}"]`);
  if (!found) throw new Error(`no row of ${nodeId}`);
  return within(found);
}

test.each(["broker", "delay"] as const)("members of a %s group have role, lag, place, and may lead", async (kind) => {
  const { section } = await opened(replicatedGroup("g1", { kind, preferred: ["g1-b"] }));
  const lag = { is_master: false, replication_lag_bytes: 2048, replication_lag_seconds: 1.5 };
  snapshot({ nodes: { "g1-b": liveNode("g1-b", "g1", { kind, ...lag }) } });
  expect(screen.getByText("2 of 2 in sync")).toBeInTheDocument();
  expect(row("g1-a").getByText("master")).toBeInTheDocument();
  expect(row("g1-b").getByText("in sync")).toBeInTheDocument();
  expect(await row("g1-b").findByText("2 KiB")).toBeInTheDocument();
  expect(await row("g1-b").findByText("1.5s")).toBeInTheDocument();
  expect(row("g1-b").getByText("rack r2")).toBeInTheDocument();
  expect(row("g1-b").getByText("replication: 10.0.0.2:20882")).toBeInTheDocument();
  expect(row("g1-b").getByText("Can be promoted")).toBeInTheDocument();
  expect(section.getByText(/Copies: 2 · minimum in sync: 2 · preferred: g1-b/)).toBeInTheDocument();
  expect(section.queryByRole("alert")).toBeNull();
  expect(await section.findByRole("button", { name: "Switch over" })).toHaveAttribute("aria-disabled", "false");
  expect(section.queryByRole("button", { name: "Promote with data loss" })).toBeNull();
});

test("of a group with one member, the minimum that applies is shown beside the one that is set", async () => {
  const { section } = await opened(groupDetail("g1", { copies: 2, in_sync_min: 2, in_sync_min_in_force: 1 }));
  expect(section.getByText(/minimum in sync: 1 \(2 once 2 members have been in sync\)/)).toBeInTheDocument();
});

test("a copying member has its progress, and the group is below its minimum", async () => {
  const copying = member("g1-b", {
    role: "copying",
    in_sync: false,
    lag_bytes: 9000,
    problem: "its role is copying",
  });
  const copy = { done_bytes: 1 << 30, total_bytes: 4 << 30, bytes_per_second: 50 << 20, seconds_left: 61 };
  const { section } = await opened(
    replicatedGroup("g1", {
      in_sync: ["g1-a"],
      member_states: [member("g1-a", { is_master: true, role: "master" }), copying],
      candidate_problem: "node g1-b: its role is copying",
    }),
    {
      "GET /api/v1/nodes/g1-a/": stats("g1-a", { slaves: [] }),
      "GET /api/v1/nodes/g1-b/": stats("g1-b", { copy: { ...copy, total_bytes: 2 ** 32 } }),
    },
  );
  expect(await row("g1-b").findByText("25% · 1 GiB of 4 GiB")).toBeInTheDocument();
  expect(row("g1-b").getByText("50 MiB/s · time left: 1m 1s")).toBeInTheDocument();
  expect(row("g1-b").getByRole("progressbar", { name: "Copy progress of g1-b" })).toBeInTheDocument();
  expect(row("g1-b").getByText("Can't be promoted: its role is copying")).toBeInTheDocument();
  const alert = section.getByRole("alert", { name: "Below its minimum: sends are rejected" });
  expect(within(alert).getByText(/1 member is in sync; at least 2 are required/)).toBeInTheDocument();
  expect(section.getByText("node g1-b: its role is copying")).toBeInTheDocument();
  expect(await section.findByRole("button", { name: "Switch over" })).toHaveAttribute("aria-disabled", "true");
});

test("a group of one copy says what is at risk, and leads to the settings", async () => {
  const { section, asked, posts } = await opened(groupDetail("g1"), {
    [`POST ${AT}copies/`]: {
      target: "g1",
      is_change: true,
      before: { copies: 1 },
      after: { copies: 2 },
      version: "8",
      notes: [{ code: "nodes_to_start", values: { missing: 1, group: "g1" }, text: "" }],
    },
  });
  expect(section.getByText(/No slave. If this node's disk is lost, its messages are lost./)).toBeInTheDocument();
  await userEvent.click(await section.findByRole("button", { name: "Add a copy" }));
  expect(section.queryByRole("button", { name: "Switch over", hidden: true })).toBeNull();
  const dialog = within(await screen.findByRole("dialog"));
  expect(dialog.getByRole("button", { name: "Preview" })).toBeDisabled();
  const copies = dialog.getByLabelText("Copies");
  await userEvent.clear(copies);
  await userEvent.type(copies, "2");
  await userEvent.click(dialog.getByRole("button", { name: "Preview" }));
  expect(await dialog.findByText(/1 more to start/)).toBeInTheDocument();
  await userEvent.click(dialog.getByRole("button", { name: "Save" }));
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  expect(posts().map(({ body }) => body)).toEqual([
    { copies: 2, reason: "" },
    { copies: 2, reason: "" },
  ]);
  const nodes = asked.filter(({ url }) => url.pathname.startsWith("/api/v1/nodes/")).map(({ url }) => url.pathname);
  expect(new Set(nodes)).toEqual(new Set(["/api/v1/nodes/g1-a/may-stop/"]));
});

test("all copies on one rack are a warning", async () => {
  const { section } = await opened(replicatedGroup("g1", { shared_rack: "r7" }));
  expect(section.getByText("All copies are on rack r7")).toBeInTheDocument();
});

test("a lower minimum takes the name of the group", async () => {
  const { section } = await opened(replicatedGroup("g1"), {
    "GET /api/v1/nodes/g1-a/": stats("g1-a", { slaves: [] }),
    [`POST ${AT}copies/`]: {
      target: "g1",
      is_change: true,
      before: { in_sync_min: 2 },
      after: { in_sync_min: 1 },
      version: "8",
      notes: [],
    },
  });
  await userEvent.click(await section.findByRole("button", { name: "Edit copies" }));
  const dialog = within(await screen.findByRole("dialog"));
  const minimum = dialog.getByLabelText("Minimum in sync");
  await userEvent.clear(minimum);
  await userEvent.type(minimum, "1");
  expect(dialog.getByText(/With a lower minimum/)).toBeInTheDocument();
  await userEvent.click(dialog.getByRole("button", { name: "Preview" }));
  const save = await dialog.findByRole("button", { name: "Save" });
  expect(save).toBeDisabled();
  await userEvent.type(dialog.getByLabelText("Type g1 to confirm"), "g1");
  expect(save).toBeEnabled();
});

test("a switch-over is previewed, and made with the version that was read and a reason", async () => {
  const tags: (string | null)[] = [];
  const { section, posts } = await opened(replicatedGroup("g1"), {
    "GET /api/v1/nodes/g1-a/": stats("g1-a", { slaves: [] }),
    [`POST ${AT}switch-over/`]: {
      target: "g1",
      is_change: true,
      before: { master: "g1-a" },
      after: { master: "g1-b" },
      version: "8",
      notes: [],
    },
  });
  const fetched = vi.mocked(fetch);
  vi.stubGlobal("fetch", (input: Request) => {
    if (input.method === "POST") tags.push(input.headers.get("If-Match"));
    return fetched(input);
  });
  await userEvent.click(await section.findByRole("button", { name: "Switch over" }));
  const dialog = within(await screen.findByRole("dialog"));
  await userEvent.selectOptions(dialog.getByLabelText("New master"), "g1-b");
  await userEvent.click(dialog.getByRole("button", { name: "Preview" }));
  expect(await dialog.findByRole("rowheader", { name: "Master" })).toBeInTheDocument();
  await userEvent.type(dialog.getByLabelText("Reason (optional)"), "new kernel");
  await userEvent.click(dialog.getByRole("button", { name: "Switch over" }));
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  expect(posts().map(({ body, url }) => [body, url.searchParams.get("dry_run")])).toEqual([
    [{ to: "g1-b", rehearsal: "", reason: "" }, "true"],
    [{ to: "g1-b", rehearsal: "", reason: "new kernel" }, "false"],
  ]);
  expect(tags).toEqual(['"v7"', '"v7"']);
});

test("a switch-over that is not possible says why", async () => {
  const { section } = await opened(replicatedGroup("g1"), {
    "GET /api/v1/nodes/g1-a/": stats("g1-a", { slaves: [] }),
    [`POST ${AT}switch-over/`]: () =>
      Response.json(
        {
          code: "broker_group.no_successor",
          title: "Conflict",
          detail: "Broker group g1 can't switch over: node g1-b: it is not in sync.",
        },
        { status: 409 },
      ),
  });
  await userEvent.click(await section.findByRole("button", { name: "Switch over" }));
  const dialog = within(await screen.findByRole("dialog"));
  await userEvent.click(dialog.getByRole("button", { name: "Preview" }));
  expect(await dialog.findByText(/node g1-b: it is not in sync/)).toBeInTheDocument();
  expect(dialog.getByRole("button", { name: "Preview" })).toBeEnabled();
});

/** A group whose master is gone, and whose slave lacks messages. */
const WITHOUT_MASTER = replicatedGroup("g1", {
  in_sync: ["g1-a"],
  member_states: [
    member("g1-a", { is_master: true, role: "offline", problem: "it does not send heartbeats" }),
    member("g1-b", { role: "following", in_sync: false, problem: "it is not in sync" }),
  ],
  candidate_problem: "node g1-b: it is not in sync",
});

test("a promotion with loss takes a reason and the bytes at risk, and a new preview when they have changed", async () => {
  let atRisk = "4096";
  const { section, posts } = await opened(WITHOUT_MASTER, {
    "GET /api/v1/nodes/g1-a/": stats("g1-a", {}),
    [`POST ${AT}promote/`]: (url: URL) => {
      if (url.searchParams.get("dry_run") === "false" && atRisk === "4096") {
        atRisk = "5000";
        const detail = "Promoting node g1-b may lose 5000 bytes of acknowledged messages; 4096 is stated.";
        const code = "broker_group.loss_not_accepted";
        return Response.json({ code, title: "Conflict", detail }, { status: 409 });
      }
      return {
        target: "g1",
        is_change: true,
        before: { master: "g1-a", epoch: "3" },
        after: { master: "g1-b", epoch: "4", bytes_at_risk: atRisk },
        version: "8",
        notes: [{ code: "bytes_lost", values: { count: Number(atRisk) }, text: "" }],
      };
    },
  });
  expect(row("g1-a").getByText("Can't be promoted: it does not send heartbeats")).toBeInTheDocument();
  await userEvent.click(await section.findByRole("button", { name: "Promote with data loss" }));
  const dialog = within(await screen.findByRole("dialog"));
  const preview = () => dialog.getByRole("button", { name: "Preview" });
  await userEvent.selectOptions(dialog.getByLabelText("Node"), "g1-b");
  expect(preview()).toBeDisabled();
  await userEvent.type(dialog.getByLabelText(/audit log/), "disk of g1-a is lost");
  await userEvent.click(preview());
  expect(await dialog.findByText("Up to 4,096 bytes of acknowledged messages are lost.")).toBeInTheDocument();
  const apply = () => dialog.getByRole("button", { name: "Promote and accept loss" });
  expect(apply()).toBeDisabled();
  await userEvent.type(dialog.getByLabelText("Type 4096 to confirm"), "4096");
  await userEvent.click(apply());
  expect(await dialog.findByText(/may lose 5000 bytes/)).toBeInTheDocument();

  await userEvent.click(preview());
  const typed = await dialog.findByLabelText("Type 5000 to confirm");
  expect(apply()).toBeDisabled();
  await userEvent.clear(typed);
  await userEvent.type(typed, "5000");
  await userEvent.click(apply());
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  const body = { node: "g1-b", reason: "disk of g1-a is lost" };
  expect(posts().map((one) => one.body)).toEqual([
    body,
    { ...body, accept_loss_bytes: "4096" },
    body,
    { ...body, accept_loss_bytes: "5000" },
  ]);
});

test("who may not change the cluster sees the members, and no buttons", async () => {
  const { section } = await opened(
    WITHOUT_MASTER,
    { "GET /api/v1/nodes/g1-a/": stats("g1-a", {}) },
    { ...ME, role: "viewer", rights: ["read"] },
  );
  expect(row("g1-b").getByText("following")).toBeInTheDocument();
  expect(section.queryAllByRole("button")).toEqual([]);
});

test("the history of roles shows the newest changes, and all on request", async () => {
  const change = (minute: number, action: string, more: object) => ({
    at: `2026-11-26T10:0${minute}:00Z`,
    actor: "metaserver",
    action: `broker_group.${action}`,
    reason: `reason ${minute}`,
    why: null,
    before: { in_sync: ["g1-a", "g1-b"] },
    after: { in_sync: ["g1-a"] },
    ...more,
  });
  await opened(
    replicatedGroup("g1", {
      role_history: [
        change(7, "promote", { before: { master: "g1-a" }, after: { master: "g1-b" } }),
        ...[6, 5, 4, 3, 2].map((minute) => change(minute, "remove_in_sync", {})),
      ],
    }),
    { "GET /api/v1/nodes/g1-a/": stats("g1-a", { slaves: [] }) },
  );
  const history = within(screen.getByRole("region", { name: "Role history" }));
  const promotion = row("2026-11-26T10:07:00Z broker_group.promote");
  expect(promotion.getByText("Promotion")).toBeInTheDocument();
  expect(promotion.getByText("g1-a")).toBeInTheDocument();
  expect(promotion.getByText("g1-b")).toBeInTheDocument();
  expect(promotion.getByText("reason 7")).toBeInTheDocument();
  expect(history.queryByText("reason 2")).toBeNull();
  await userEvent.click(history.getByRole("button", { name: "Show all 6 changes" }));
  expect(history.getByText("reason 2")).toBeInTheDocument();
});

test("reasons and limitations are in the language of the viewer", async () => {
  const silent = { code: "no_heartbeats", values: {}, text: "it does not send heartbeats" };
  const node = {
    code: "node_with",
    values: { node: "g1-b", why: silent },
    text: "node g1-b: it does not send heartbeats",
  };
  await opened(
    replicatedGroup("g1", {
      member_states: [
        member("g1-a", {
          is_master: true,
          role: "master",
          limitations: [{ code: "disk_full", values: {}, text: "its disk is full" }],
        }),
        member("g1-b", { role: "offline", problem: silent.text, problem_why: silent }),
      ],
      candidate_problem: node.text,
      candidate_why: node,
      role_history: [
        {
          at: "2026-11-26T10:00:00Z",
          actor: "metaserver",
          action: "broker_group.promote",
          reason: "in English",
          why: {
            code: "promoted",
            values: {
              node: "g1-a",
              why: { code: "master_silent", values: { master: "g1-b", seconds: 1234.5 }, text: "it is silent" },
            },
            text: "in English",
          },
          before: { master: "g1-b" },
          after: { master: "g1-a" },
        },
      ],
    }),
    { "GET /api/v1/nodes/g1-a/": stats("g1-a", { slaves: [] }) },
  );
  expect(row("g1-a").getByText("Others are preferred: its disk is full")).toBeInTheDocument();
  expect(row("g1-b").getByText("Can't be promoted: it does not send heartbeats")).toBeInTheDocument();
  await act(() => setLanguage("zh"));
  expect(row("g1-a").getByText("优先提升其他成员：磁盘已满")).toBeInTheDocument();
  expect(row("g1-b").getByText(/没有发送心跳/)).toBeInTheDocument();
  expect(screen.getByText("节点 g1-b：没有发送心跳")).toBeInTheDocument();
  expect(screen.getByText("主节点 g1-b 已有 1,234.5 秒没有发送心跳；节点 g1-a 被提升为主节点")).toBeInTheDocument();
});

test("a member is removed after its node ID was typed", async () => {
  const { section, posts } = await opened(replicatedGroup("g1"), {
    "GET /api/v1/nodes/g1-a/": stats("g1-a", { slaves: [] }),
    [`POST ${AT}members/remove/`]: {
      target: "g1",
      is_change: true,
      before: { members: ["g1-a", "g1-b"] },
      after: { members: ["g1-a"] },
      version: "8",
      notes: [{ code: "becomes_spare", values: { node: "g1-b" }, text: "" }],
    },
  });
  await userEvent.click(await section.findByRole("button", { name: "Remove member" }));
  const dialog = within(await screen.findByRole("dialog"));
  expect(dialog.getByRole("button", { name: "Preview" })).toBeDisabled();
  await userEvent.selectOptions(dialog.getByLabelText("Member"), "g1-b");
  await userEvent.click(dialog.getByRole("button", { name: "Preview" }));
  expect(await dialog.findByText(/Node g1-b is a spare/)).toBeInTheDocument();
  expect(dialog.getByRole("button", { name: "Remove" })).toBeDisabled();
  await userEvent.type(dialog.getByLabelText("Type g1-b to confirm"), "g1-b");
  await userEvent.click(dialog.getByRole("button", { name: "Remove" }));
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  expect(posts().map(({ body }) => body)).toEqual([
    { node: "g1-b", reason: "" },
    { node: "g1-b", reason: "" },
  ]);
});

test("the only member is replaced by a node that is named", async () => {
  const { section, posts } = await opened(groupDetail("g1"), {
    [`POST ${AT}members/replace/`]: {
      target: "g1",
      is_change: true,
      before: { replacement: "" },
      after: { replacement: "g1-d" },
      version: "8",
      notes: [],
    },
  });
  await userEvent.click(await section.findByRole("button", { name: "Replace member" }));
  const dialog = within(await screen.findByRole("dialog"));
  await userEvent.type(dialog.getByLabelText("New node"), "g1-d");
  await userEvent.click(dialog.getByRole("button", { name: "Preview" }));
  await userEvent.click(await dialog.findByRole("button", { name: "Replace" }));
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  expect(posts().map(({ body }) => body)).toEqual([
    { node: "g1-a", replacement: "g1-d", reason: "" },
    { node: "g1-a", replacement: "g1-d", reason: "" },
  ]);
});

test("a pending replacement is shown, and can be canceled", async () => {
  const { section } = await opened(groupDetail("g1", { replaced: "g1-a", replacement: "g1-d" }), {});
  expect(section.getByText("g1-d is to replace g1-a")).toBeInTheDocument();
  expect(section.queryByRole("button", { name: "Replace member" })).toBeNull();
  await userEvent.click(await section.findByRole("button", { name: "Remove member" }));
  const dialog = within(await screen.findByRole("dialog"));
  expect(dialog.getByRole("option", { name: "g1-d" })).toBeInTheDocument();
});
