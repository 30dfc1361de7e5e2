import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test } from "vitest";
import GroupsPage from "@/features/groups/GroupsPage";
import { row } from "@/features/groups/testing";
import { fakeFeeds, snapshot } from "@/test/feeds";
import { answer, mount } from "@/test/mount";

const page = (...results: object[]) => ({ at: null, reason: null, states: { stopped: 1 }, results, next: null });
let feeds: ReturnType<typeof fakeFeeds>;
beforeEach(() => {
  feeds = fakeFeeds();
});

const names = () =>
  within(screen.getByRole("region"))
    .getAllByRole("row")
    .flatMap((line) => line.getAttribute("data-row") ?? []);
const cell = (name: string, column: string) =>
  document.querySelector(`[data-row="${name}"] [data-cell="${column}"]`) as HTMLElement;

test("filters and order go to the API; numbers are descending first", async () => {
  const { asked } = answer({ "GET /api/v1/lag/": page(row("billing")) });
  await mount(GroupsPage, "/groups?state=stopped&search=bil");
  await screen.findByRole("link", { name: "billing" });
  const lists = () => asked.map(({ url }) => url.searchParams).filter((query) => query.has("ordering"));
  expect(Object.fromEntries(lists()[0] ?? [])).toEqual({
    state: "stopped",
    search: "bil",
    ordering: "-time_lag_seconds",
    limit: "50",
  });
  await userEvent.click(screen.getByRole("button", { name: "Lag" }));
  await waitFor(() => expect(lists().at(-1)?.get("ordering")).toBe("-lag"));
  await userEvent.click(screen.getByRole("button", { name: "Lag" }));
  await waitFor(() => expect(lists().at(-1)?.get("ordering")).toBe("lag"));
  await userEvent.click(screen.getByRole("button", { name: "Lag" }));
  await waitFor(() => expect(lists().at(-1)?.get("ordering")).toBe("-time_lag_seconds"));
});

test("rows stay where they are while their numbers move", async () => {
  answer({ "GET /api/v1/lag/": page(row("billing", { lag: 40 }), row("audit", { lag: 5 })) });
  await mount(GroupsPage, "/groups");
  await screen.findByRole("link", { name: "billing" });
  feeds[0]?.say(
    snapshot({ subjects: {}, groups: { "orders\naudit": { ...row("audit"), lag: 9_000, state: "stopped" } } }),
  );
  await waitFor(() => expect(cell("orders/audit", "lag")).toHaveTextContent("9,000"));
  expect(cell("orders/audit", "state")).toHaveTextContent("Stopped");
  expect(cell("orders/billing", "lag")).toHaveTextContent("40");
  expect(names()).toEqual(["orders/billing", "orders/audit"]);
});

test("what was not measured is unknown; a lag that never drains is never; 0 while the group keeps up", async () => {
  const unknown = {
    lag: null,
    drain_seconds: null,
    is_draining: null,
    state: "unknown",
    reason: "g1 is away",
  } as const;
  const never = { drain_seconds: null, is_draining: false, not_draining: "too_slow", state: "growing" } as const;
  const idle = { drain_seconds: null, is_draining: false, not_draining: "no_consumers", state: "stopped" } as const;
  const keeping = {
    lag: 2,
    drain_seconds: 0,
    state: "caught_up",
  } as const;
  const rows = [row("lost", unknown), row("slow", never), row("alone", idle), row("keeping", keeping)];
  answer({ "GET /api/v1/lag/": page(...rows) });
  await mount(GroupsPage, "/groups");
  await screen.findByRole("link", { name: "lost" });
  expect(cell("orders/lost", "lag")).toHaveTextContent("—");
  expect(cell("orders/lost", "drain_seconds")).toHaveTextContent("—");
  expect(within(cell("orders/lost", "lag")).getByLabelText("unknown: g1 is away")).toBeInTheDocument();
  expect(cell("orders/slow", "drain_seconds")).toHaveTextContent("never");
  expect(cell("orders/alone", "drain_seconds")).toHaveTextContent("not draining");
  expect(cell("orders/keeping", "drain_seconds")).toHaveTextContent("0s");
});

test("a state in the summary shows only such groups", async () => {
  answer({ "GET /api/v1/lag/": page(row("billing")) });
  const { address } = await mount(GroupsPage, "/groups");
  await screen.findByRole("link", { name: "billing" });
  await userEvent.click(await screen.findByRole("button", { name: "1 Stopped" }));
  await waitFor(() => expect(address()).toContain("state=stopped"));
});

test("an empty list teaches the first consumer", async () => {
  answer({ "GET /api/v1/lag/": page() });
  await mount(GroupsPage, "/groups");
  expect(await screen.findByText("qmq consume order.paid billing")).toBeInTheDocument();
});
