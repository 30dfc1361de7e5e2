import { act, screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test, vi } from "vitest";
import BrokerPage from "@/features/brokers/BrokerPage";
import type { BrokerGroupDetail } from "@/features/brokers/queries";
import { brokerGroup, groupDetail } from "@/features/brokers/samples.testing";
import { setLanguage } from "@/i18n";
import { me } from "@/test/me";
import { answer, mount, type Answers } from "@/test/mount";

const ME = me({ username: "olga", role: "admin", rights: ["read", "change_cluster"], teams: [] });
const AT = "/api/v1/broker-groups/g1/";
const CHANGE = {
  target: "g1",
  is_change: true,
  before: { operator_state: "normal" },
  after: { operator_state: "draining" },
  version: "2",
  notes: [{ code: "subjects_move", values: { subjects: 1234 }, text: "1234 subjects move" }],
};

beforeEach(() => {
  vi.stubGlobal(
    "WebSocket",
    class {
      close() {
        return;
      }
    },
  );
});

function shown(more: Partial<BrokerGroupDetail> = {}, answers: Answers = {}, me: unknown = ME) {
  const group = groupDetail("g1", more);
  return answer({
    "GET /api/v1/me/": me,
    [`GET ${AT}`]: () => Response.json(group, { headers: { ETag: '"v1"' } }),
    "GET /api/v1/history/": { at: [], fields: {}, reason: "nothing of it was measured", step_seconds: 10 },
    "GET /api/v1/subjects/": { results: [], next: null, previous: null },
    ...answers,
  });
}

const open = (query = "") => mount(BrokerPage, `/brokers/g1${query}`, "/brokers/$name");

test("a drain shows what it does, and is done only when the name was typed, to the version that was read", async () => {
  const tags: (string | null)[] = [];
  const { asked } = shown({}, { [`POST ${AT}drain/`]: CHANGE });
  const fetched = vi.mocked(fetch);
  vi.stubGlobal("fetch", (input: Request) => {
    if (input.method === "POST") tags.push(input.headers.get("If-Match"));
    return fetched(input);
  });
  await open();
  await userEvent.click(await screen.findByRole("button", { name: "Drain" }));
  const dialog = await screen.findByRole("dialog");
  expect(
    await within(dialog).findByText(/^Subjects that will move to other groups: 1,234\. Messages stored here/),
  ).toBeInTheDocument();
  const doIt = within(dialog).getByRole("button", { name: "Drain" });
  expect(doIt).toBeDisabled();
  await userEvent.type(within(dialog).getByLabelText("Type g1 to confirm"), "g1");
  await userEvent.click(doIt);
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  const posted = asked.filter(({ method }) => method === "POST");
  expect(posted.map(({ url }) => url.searchParams.get("dry_run"))).toEqual(["true", "false"]);
  expect(tags).toEqual(['"v1"', '"v1"']);
});

test("a draining group says what is left and what is waited for", async () => {
  shown(
    { operator_state: "draining", subjects: 2, subjects_moving: 2, operator_reason: "old disks" },
    {
      "GET /api/v1/jobs/moves/": {
        is_enabled: true,
        is_late: false,
        error: "",
        error_parts: [],
        result: "2 subjects moving, 0 steps completed; waiting for: orders on g1: group a has 7 messages pending",
        result_parts: [
          { code: "moves.moving", values: { count: 2 } },
          { code: "waiting.lag", values: { subject: "orders", broker_group: "g1", group: "a", count: 7 } },
        ],
      },
    },
  );
  await open();
  expect(await screen.findByText(/2 subjects left/)).toBeInTheDocument();
  expect(
    await screen.findByText(/2 subjects moving; waiting for: orders on g1: group a has 7 messages pending/),
  ).toBeInTheDocument();
  expect(screen.getByText(/old disks/)).toBeInTheDocument();
  expect(document.querySelector("[aria-current=step]")).toHaveAttribute("data-step", "moved");
});

test("a group that returns to service shows what its subjects wait for, until they have joined", async () => {
  const lag = { subject: "orders", broker_group: "g1", group: "billing", count: 1200 };
  const waiting = [
    { subject: "orders", code: "waiting.lag", values: lag, text: "orders on g1: group billing has 1,200 messages" },
    { subject: "parts", code: "waiting.unheard_of", values: {}, text: "parts waits for the moon" },
  ];
  const group = { subjects: 3, subjects_moving: 2, waiting };
  shown(group);
  const page = await open();
  const moves = await screen.findByRole("status", { name: "2 subjects join or leave this group: waiting for" });
  const items = await within(moves).findAllByRole("listitem");
  expect(items.map(({ textContent }) => textContent)).toEqual([
    "orders on g1: group billing has 1,200 messages pending",
    "parts waits for the moon",
  ]);
  page.unmount();
  shown({ subjects: 3, subjects_moving: 2 });
  const next = await open();
  expect(await screen.findByText("Nothing. The next step follows within a few seconds.")).toBeInTheDocument();
  next.unmount();
  shown({ subjects: 3 });
  await open();
  expect(await screen.findByRole("region", { name: "Nodes" })).toBeInTheDocument();
  expect(screen.queryByText(/join or leave this group/)).toBeNull();
});

test("a loop that is off holds a drain up, and that is said", async () => {
  shown(
    { operator_state: "draining", subjects: 2 },
    {
      "GET /api/v1/jobs/moves/": {
        is_enabled: false,
        is_late: false,
        error: "",
        error_parts: [],
        result: "",
        result_parts: [],
      },
    },
  );
  await open();
  expect(await screen.findByText(/is disabled/)).toBeInTheDocument();
});

test("a group that runs can't be removed; one that is empty and stopped can", async () => {
  shown({ subjects: 0 });
  const page = await open();
  const button = await screen.findByRole("button", { name: "Remove" });
  expect(button).toHaveAttribute("aria-disabled", "true");
  await userEvent.click(button);
  expect(screen.queryByRole("dialog")).toBeNull();
  page.unmount();

  const gone = { ...CHANGE, after: null, version: "None", notes: [] };
  const { asked } = shown({ subjects: 0, reported_state: "offline" }, { [`DELETE ${AT}`]: gone });
  const again = await open();
  await userEvent.click(await screen.findByRole("button", { name: "Remove" }));
  const dialog = within(await screen.findByRole("dialog"));
  await userEvent.type(await dialog.findByLabelText("Type g1 to confirm"), "g1");
  await userEvent.click(dialog.getByRole("button", { name: "Remove" }));
  await waitFor(() => expect(again.address()).toBe("/brokers"));
  expect(asked.filter(({ method }) => method === "DELETE")).toHaveLength(2);
});

test("a group whose nodes are lost is removed with the loss that the preview states", async () => {
  const planned = {
    ...CHANGE,
    before: {},
    after: { at_risk: "6000" },
    version: "None",
    notes: [{ code: "", values: {}, text: "6000 bytes are lost." }],
  };
  const { asked } = shown({ subjects: 3, reported_state: "offline" }, { [`POST ${AT}remove-lost/`]: planned });
  const page = await open();
  await userEvent.click(await screen.findByRole("button", { name: "Remove with data loss" }));
  const dialog = within(await screen.findByRole("dialog"));
  const preview = await dialog.findByRole("button", { name: "Preview" });
  expect(preview).toBeDisabled();
  await userEvent.type(dialog.getByLabelText(/audit log/), "the building burned down");
  await userEvent.click(preview);
  expect(await dialog.findByText("6000 bytes are lost.")).toBeInTheDocument();
  await userEvent.type(await dialog.findByLabelText("Type 6000 to confirm"), "6000");
  await userEvent.click(dialog.getByRole("button", { name: "Remove and accept loss" }));
  await waitFor(() => expect(page.address()).toBe("/brokers"));
  const body = { reason: "the building burned down" };
  expect(asked.filter(({ method }) => method === "POST").map((one) => one.body)).toEqual([
    body,
    { ...body, accept_loss: "6000" },
  ]);
});

test("a group that waits for approval can be approved or removed, and nothing else", async () => {
  const change = {
    ...CHANGE,
    before: { operator_state: "unapproved" },
    after: { operator_state: "normal" },
    notes: [{ code: "", values: {}, text: "Node g1-a at 10.0.0.1:20881 serves with its next heartbeat." }],
  };
  const { asked } = shown(
    { operator_state: "unapproved", reported_state: "offline", subjects: 0 },
    { [`POST ${AT}approve/`]: change },
  );
  await open();
  expect(await screen.findByText("Pending approval")).toBeInTheDocument();
  expect(await screen.findByRole("button", { name: "Remove" })).toHaveAttribute("aria-disabled", "false");
  for (const name of ["Drain", "Set read-only", "Return to service"]) {
    expect(screen.queryByRole("button", { name })).toBeNull();
  }
  await userEvent.click(screen.getByRole("button", { name: "Approve" }));
  const dialog = await screen.findByRole("dialog");
  expect(await within(dialog).findByText(/g1-a at 10\.0\.0\.1:20881/)).toBeInTheDocument();
  await userEvent.click(within(dialog).getByRole("button", { name: "Approve" }));
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  const posted = asked.filter(({ method }) => method === "POST");
  expect(posted.map(({ url }) => url.searchParams.get("dry_run"))).toEqual(["true", "false"]);
});

test("a viewer is offered nothing", async () => {
  shown({}, {}, { ...ME, role: "viewer", rights: ["read"] });
  await open();
  expect(await screen.findByRole("heading", { name: "Nodes" })).toBeInTheDocument();
  for (const name of ["Drain", "Set read-only", "Edit", "Remove"]) {
    expect(screen.queryByRole("button", { name })).toBeNull();
  }
});

const NODE = {
  ...brokerGroup("g1").nodes[0],
  unknown_reason: null,
  stats: { log: { begin: 0, end: 4000, synced_end: 4000, damaged: [] }, uptime_seconds: 5, connections: 0 },
};

test("a node's page names what is damaged, why it is not repaired, and how far stored data was read again", async () => {
  const replication = {
    damaged_ranges: 22,
    repaired_ranges: 7,
    repairs: {
      pending: [{ file: "schedule/2026112913.data", begin: 0, end: 2048, why: "bad checksum", problem: "no answer" }],
    },
    scrub: { pass_seconds: 90_000, done_share: 0.4, last_pass_age_seconds: 7_200 },
  };
  const damaged = [{ begin: 200, end: 300, why: "commits can't be read" }];
  const stats = { ...NODE.stats, log: { ...NODE.stats.log, damaged }, replication };
  shown({}, { "GET /api/v1/nodes/g1-a/": { ...NODE, log_end: "4000", stats } });
  await open("?node=g1-a");
  const section = await screen.findByRole("region", { name: "22 corrupted ranges" });
  const rows = within(section)
    .getAllByRole("row")
    .slice(1)
    .map((row) =>
      within(row)
        .getAllByRole("cell")
        .map(({ textContent }) => textContent),
    );
  expect(rows).toEqual([
    ["log", "200 – 300", "100 B", "commits can't be read", "—"],
    ["schedule/2026112913.data", "0 – 2,048", "2 KiB", "bad checksum", "no answer"],
  ]);
  expect(within(section).getByText("20 more corrupted ranges")).toBeVisible();
  const fact = (id: string) => document.querySelector(`[data-fact="${id}"] td`)?.textContent;
  expect([fact("repaired"), fact("scrub"), fact("last_pass")]).toEqual(["7", "40%, after 1d 1h", "2h ago"]);
});

test("a node that does not read its stored data again says so", async () => {
  const replication = { damaged_ranges: 0, repaired_ranges: 0, scrub: null };
  shown({}, { "GET /api/v1/nodes/g1-a/": { ...NODE, stats: { ...NODE.stats, replication } } });
  await open("?node=g1-a");
  expect(await screen.findByText("Off, or not begun")).toBeVisible();
  expect(screen.getByText("Not yet")).toBeVisible();
  expect(screen.queryByRole("region", { name: /corrupted range/ })).toBeNull();
});

test("a log that ends too early can be given up, with a reason and the node's name", async () => {
  const { asked } = shown(
    {},
    {
      "GET /api/v1/nodes/g1-a/": NODE,
      "POST /api/v1/nodes/g1-a/accept-log-loss/": { ...CHANGE, target: "g1-a", before: { log_end: "5000" } },
    },
  );
  await open("?node=g1-a");
  await userEvent.click(await screen.findByRole("button", { name: "Accept data loss" }));
  const dialog = await screen.findByRole("dialog", { name: /Accept data loss/ });
  expect(within(dialog).getByRole("button", { name: "Preview" })).toBeDisabled();
  await userEvent.type(within(dialog).getByLabelText(/audit log/), "disk swapped");
  await userEvent.click(within(dialog).getByRole("button", { name: "Preview" }));
  await userEvent.type(await within(dialog).findByLabelText("Type g1-a to confirm"), "g1-a");
  await userEvent.click(within(dialog).getByRole("button", { name: "Accept data loss" }));
  await waitFor(() =>
    expect(asked.findLast(({ method }) => method === "POST")?.body).toEqual({
      log_end: "4000",
      reason: "disk swapped",
    }),
  );
});

test("a node's details show why it accepts no sends, in the language of the page", async () => {
  const text = "read only: set to read-only by an operator";
  const why = { code: "set_read_only", values: {}, text: "set to read-only by an operator" };
  const stats = { ...NODE.stats, state_reason: text, state_why: { code: "refuses", values: { why }, text } };
  shown({}, { "GET /api/v1/nodes/g1-a/": { ...NODE, stats } });
  await open("?node=g1-a");
  expect(await screen.findByText(text)).toBeInTheDocument();
  await act(() => setLanguage("zh"));
  expect(await screen.findByText("只读：由操作员设为只读")).toBeInTheDocument();
  await act(() => setLanguage("en"));
});

test("a node that does not answer has no numbers, and says why", async () => {
  shown({}, { "GET /api/v1/nodes/g1-a/": { ...NODE, stats: null, unknown_reason: "connection refused" } });
  await open("?node=g1-a");
  expect(await screen.findByText("connection refused")).toBeInTheDocument();
  expect(document.querySelector("[data-fact=connections]")).toHaveTextContent("—");
  expect(document.querySelector("[data-missing]")).toBeNull();
});
