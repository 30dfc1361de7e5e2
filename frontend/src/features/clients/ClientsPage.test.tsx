import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test } from "vitest";
import ClientsPage from "@/features/clients/ClientsPage";
import type { Client } from "@/features/clients/queries";
import { fakeFeeds } from "@/test/feeds";
import { answer, mount } from "@/test/mount";

beforeEach(() => {
  fakeFeeds();
});

const PRODUCER: Client = {
  role: "producer",
  app: "shop",
  subject: "orders",
  group: "",
  client_id: "",
  host: "10.0.0.1",
  addresses: ["10.0.0.1:4000", "10.0.0.1:4001"],
  connections: 2,
  broker_groups: ["g1", "g2"],
  rate: 12,
  at_least: 12,
  missing: [],
  agents: ["PyQMQ/0.1.0 Python/3.11.9"],
  protocol: 9,
  tags: null,
  all_tags: null,
  broadcast: null,
  differs: [],
  registered_at: null,
  owner: null,
};
const CONSUMER: Client = {
  ...PRODUCER,
  role: "consumer",
  app: "",
  group: "billing",
  client_id: "c1",
  rate: null,
  at_least: 3,
  missing: ["g2"],
  agents: [],
  tags: ["odd", "even"],
  all_tags: false,
  broadcast: false,
  differs: ["tags"],
};
const page = (...results: Client[]) => ({ results, next: null, unreachable: {}, left_out: 0, differing: [] });
const DIFFERING = [{ subject: "orders", group: "billing", differs: ["tags"] }];

function cell(row: Client, column: string): HTMLElement | null {
  const key = [row.role, row.subject, row.group, row.app, row.host, row.client_id].join("\n");
  return document.querySelector(`[data-row="${CSS.escape(key)}"] [data-cell="${column}"]`);
}

test("producers and consumers, what they run, and what is not known", async () => {
  answer({ "GET /api/v1/clients/": { ...page(PRODUCER, CONSUMER), differing: DIFFERING } });
  await mount(ClientsPage, "/clients");
  await screen.findByText("shop");
  expect(cell(PRODUCER, "rate")).toHaveTextContent("12");
  expect(cell(PRODUCER, "version")).toHaveTextContent("PyQMQ 0.1.0 · Python 3.11.9");
  expect(cell(PRODUCER, "subscription")).toBeEmptyDOMElement();
  expect(cell(CONSUMER, "rate")).toHaveTextContent("≥ 3");
  expect(cell(CONSUMER, "version")).toHaveTextContent("—");
  expect(cell(CONSUMER, "subscription")).toHaveTextContent("odd | even");
  expect(cell(CONSUMER, "subscription")).toHaveTextContent("Differs");
  const warning = document.querySelector("[data-differing='orders/billing']");
  expect(warning).toHaveTextContent("Members filter by different tags");
});

test("filters and order go to the API", async () => {
  const { asked } = answer({ "GET /api/v1/clients/": page(PRODUCER) });
  await mount(ClientsPage, "/clients?role=producer&search=sh");
  await screen.findByText("shop");
  const lists = () => asked.filter(({ url }) => url.searchParams.get("limit") !== "1");
  expect(Object.fromEntries(lists()[0]?.url.searchParams ?? [])).toEqual({
    role: "producer",
    search: "sh",
    ordering: "-rate",
    limit: "50",
  });
  await userEvent.click(screen.getByRole("button", { name: "Application" }));
  await waitFor(() => expect(lists().at(-1)?.url.searchParams.get("ordering")).toBe("app"));
});

test("clients that nodes did not list are counted", async () => {
  answer({ "GET /api/v1/clients/": { ...page(PRODUCER), left_out: 40 } });
  await mount(ClientsPage, "/clients");
  expect(await screen.findByText(/40 clients with low rates are not listed/)).toBeInTheDocument();
});
