import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test, vi } from "vitest";
import BrokersPage from "@/features/brokers/BrokersPage";
import { rehearsalAt, type Planned, type Rehearsed } from "@/features/brokers/rehearse/queries";
import { brokerGroup } from "@/features/brokers/samples.testing";
import { me } from "@/test/me";
import { answer, mount, type Answers } from "@/test/mount";

const ADMIN = me({ username: "olga", role: "admin", rights: ["read", "change_cluster"], teams: [] });
const VIEWER = me({ username: "vera", role: "viewer", rights: ["read"], teams: [] });

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

function planned(group: string, more: Partial<Planned> = {}): Planned {
  const names = { broker_group: group, master: `${group}-a`, to: `${group}-b` };
  return { ...names, kind: "broker", version: "4", reason: "", why: null, ...more };
}

function rehearsed(group: string): Rehearsed {
  const names = { master: `${group}-b`, to: `${group}-a`, rehearsal: "rack r1" };
  return { ...planned(group), ...names, at: "2026-11-21T10:00:00Z", actor: "olga" };
}

const ALONE = planned("g3", {
  to: "",
  reason: "the group has one member",
  why: { code: "one_member", values: {}, text: "the group has one member" },
});

interface Given {
  plan?: Planned[];
  undo?: Rehearsed[];
  more?: Answers;
  user?: unknown;
}

/** The page of broker groups, with the answers of rehearsals. */
async function opened(query: string, { plan = [], undo = [], more = {}, user = ADMIN }: Given) {
  const groups = ["g1", "g2", "g3"].map((name) => brokerGroup(name));
  const { asked } = answer({
    "GET /api/v1/me/": user,
    "GET /api/v1/broker-groups/": { results: groups, next: null, previous: null },
    "GET /api/v1/rehearsals/": (url: URL) =>
      Response.json({
        plan: url.searchParams.size ? plan : [],
        undo,
        racks: [{ rack: "r1", nodes: 3, groups: 3 }],
      }),
    ...more,
  });
  const page = await mount(BrokersPage, `/brokers${query}`);
  return { page, posts: () => asked.filter(({ method }) => method === "POST") };
}

function done(group: string) {
  const change = { target: group, is_change: true, before: {}, after: {}, version: "5", notes: [] };
  return { [`POST /api/v1/broker-groups/${group}/switch-over/`]: change };
}

async function outcome(group: string) {
  const found = await waitFor(() => {
    const row = document.querySelector(`[role=dialog] [data-row="${group}"] [data-cell=result]`);
    expect(row).not.toBeNull();
    return row;
  });
  return found as HTMLElement;
}

test.each([
  ["node:g1-a", { of: "node", name: "g1-a" }],
  ["rack:a:b", { of: "rack", name: "a:b" }],
  ["undo", { of: "undo", name: "" }],
  ["choose", { of: "choose", name: "" }],
  ["node", { of: "choose", name: "" }],
  ["x:y", { of: "choose", name: "" }],
])("the address %s", (text, expected) => {
  expect(rehearsalAt(text)).toEqual(expected);
});

test("a rack is chosen, planned and switched over group by group; one that fails does not stop the others", async () => {
  const failing = () =>
    Response.json(
      { code: "broker_group.no_successor", title: "Conflict", detail: "no slave", status: 409 },
      {
        status: 409,
      },
    );
  const plan = [planned("g1"), planned("g2"), ALONE];
  const more = { ...done("g2"), "POST /api/v1/broker-groups/g1/switch-over/": failing };
  const { page, posts } = await opened("", { plan, more });
  await userEvent.click(await screen.findByRole("button", { name: "Rehearse" }));
  const dialog = within(await screen.findByRole("dialog", { name: "Rehearse a failure" }));
  await userEvent.selectOptions(await dialog.findByLabelText("What is to stop"), "r1 (leads 3 groups)");
  await waitFor(() => expect(page.address()).toBe("/brokers?rehearse=rack%3Ar1"));
  expect(await outcome("g1")).toHaveTextContent("can be switched over");
  expect(await outcome("g3")).toHaveTextContent("the group has one member");
  expect(dialog.getByText("1 group can't be switched over")).toBeInTheDocument();
  await userEvent.click(dialog.getByRole("button", { name: "Switch over 2 groups" }));
  expect(await dialog.findByText("1 of 2 switched over, 1 failed")).toBeInTheDocument();
  expect(await outcome("g1")).toHaveTextContent("no slave");
  expect(await outcome("g2")).toHaveTextContent("switched over");
  expect(posts().map(({ url, body }) => [url.pathname, body])).toEqual([
    ["/api/v1/broker-groups/g1/switch-over/", { to: "g1-b", rehearsal: "rack r1", reason: "" }],
    ["/api/v1/broker-groups/g2/switch-over/", { to: "g2-b", rehearsal: "rack r1", reason: "" }],
  ]);
  await userEvent.click(dialog.getByRole("button", { name: "Switch back" }));
  await waitFor(() => expect(page.address()).toBe("/brokers?rehearse=undo"));
});

test("what a closed page left is shown to the next operator, and switched back", async () => {
  const { posts } = await opened("", {
    undo: [rehearsed("g1"), rehearsed("g2")],
    more: { ...done("g1"), ...done("g2") },
  });
  const left = await screen.findByText("2 groups are still switched over by a rehearsal");
  const alert = left.closest<HTMLElement>("[data-rehearsed]");
  expect(alert).toHaveTextContent("g1 → g1-b (rack r1), g2 → g2-b (rack r1) · olga");
  await userEvent.click(await within(alert as HTMLElement).findByRole("button", { name: "Switch back" }));
  const dialog = within(await screen.findByRole("dialog", { name: "Switch back after a rehearsal" }));
  await userEvent.type(await dialog.findByLabelText(/Reason/), "enough");
  await userEvent.click(dialog.getByRole("button", { name: "Switch back 2 groups" }));
  expect(await dialog.findByText("2 of 2 switched over, 0 failed")).toBeInTheDocument();
  expect(posts().map(({ body }) => body)).toEqual([
    { to: "g1-a", rehearsal: "", reason: "enough" },
    { to: "g2-a", rehearsal: "", reason: "enough" },
  ]);
});

test("it stops after the group that is being switched over, and continues", async () => {
  let answerFirst: (response: Response) => void = () => undefined;
  const first = new Promise<Response>((resolve) => {
    answerFirst = resolve;
  });
  const change = { target: "g1", is_change: true, before: {}, after: {}, version: "5", notes: [] };
  const more = { ...done("g2"), "POST /api/v1/broker-groups/g1/switch-over/": () => first };
  const { posts } = await opened("?rehearse=node:n1", { plan: [planned("g1"), planned("g2")], more });
  const dialog = within(await screen.findByRole("dialog"));
  await userEvent.click(await dialog.findByRole("button", { name: "Switch over 2 groups" }));
  await userEvent.click(await dialog.findByRole("button", { name: "Stop" }));
  expect(await outcome("g1")).toHaveTextContent("switching over");
  answerFirst(Response.json(change));
  expect(await dialog.findByText("Stopped: 1 of 2 switched over, 0 failed")).toBeInTheDocument();
  expect(posts()).toHaveLength(1);
  await userEvent.click(dialog.getByRole("button", { name: "Continue" }));
  expect(await dialog.findByText("2 of 2 switched over, 0 failed")).toBeInTheDocument();
  expect(posts()).toHaveLength(2);
});

test("a viewer sees what was left and can't rehearse", async () => {
  await opened("?rehearse=undo", { undo: [rehearsed("g1")], user: VIEWER });
  expect(await screen.findByText("1 group is still switched over by a rehearsal")).toBeInTheDocument();
  expect(screen.queryByRole("dialog")).toBeNull();
  expect(screen.queryByRole("button", { name: "Rehearse" })).toBeNull();
});
