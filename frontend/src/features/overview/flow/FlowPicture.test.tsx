import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test } from "vitest";
import FlowPicture from "@/features/overview/flow/FlowPicture";
import type { Flow, FlowPlace } from "@/features/overview/queries";
import { fakeFeeds } from "@/test/feeds";
import { answer, mount } from "@/test/mount";

beforeEach(() => {
  fakeFeeds();
});

function place(id: string, name: string, fields: Partial<FlowPlace>): FlowPlace {
  return { id, kind: "subject", name, subject: "", count: 1, rate: 12, lag: null, state: null, ...fields };
}

const FLOW: Flow = {
  at: null,
  reason: null,
  unreachable: {},
  applications: [place("a0", "shop", { kind: "application" })],
  subjects: [place("s0", "orders", {})],
  groups: [
    place("g0", "billing", { kind: "group", subject: "orders", rate: 3, lag: 40, state: "growing" }),
    place("g-", "", { kind: "others", count: 7, rate: 2, lag: 0 }),
  ],
  links: [
    { sender: "a0", receiver: "s0", rate: 12 },
    { sender: "s0", receiver: "g0", rate: 3 },
    { sender: "s0", receiver: "g-", rate: 2 },
  ],
};

test("each place is a link that says its numbers", async () => {
  answer({ "GET /api/v1/flow/": FLOW });
  await mount(FlowPicture);
  const group = await screen.findByRole("link", { name: "billing: 3/s · lag 40 · falling behind" });
  expect(group).toHaveAttribute("href", "/groups/orders/billing");
  expect(screen.getByRole("link", { name: "orders: 12/s" })).toHaveAttribute("href", "/subjects/orders");
  expect(screen.getByRole("link", { name: "shop: 12/s" })).toHaveAttribute("href", "/clients?search=shop");
  expect(screen.getByRole("link", { name: /7 other groups/ })).toHaveAttribute("href", "/groups");
  expect(document.querySelector("[data-band='s0 g0']")).toHaveAttribute("stroke", "var(--mantine-color-orange-5)");
});

test("the picture can be read as a table, the widest band first", async () => {
  answer({ "GET /api/v1/flow/": { ...FLOW, unreachable: { g2: "no answer" } } });
  await mount(FlowPicture);
  await userEvent.click(await screen.findByRole("button", { name: "Show as table: Message flow" }));
  const rows = [...document.querySelectorAll("[data-row]")].map((row) => row.textContent);
  expect(rows).toEqual(["shoporders12", "ordersbilling340", "orders7 other groups20"]);
  expect(screen.getByText("Without what is sent to: g2")).toBeInTheDocument();
});

test("without messages, or without numbers, there is the reason", async () => {
  answer({
    "GET /api/v1/flow/": { ...FLOW, applications: [], subjects: [], groups: [], links: [], reason: "no Redis" },
  });
  await mount(FlowPicture);
  expect(await screen.findByText("no Redis")).toBeInTheDocument();
});
