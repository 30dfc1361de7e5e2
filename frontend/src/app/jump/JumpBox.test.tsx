import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test } from "vitest";
import { Jump } from "@/app/jump/Jump";
import { recentOf, remember } from "@/app/jump/recent";
import { me } from "@/test/me";
import { answer, mount } from "@/test/mount";

const place = (kind: string, name: string, more = {}) => ({
  kind,
  name,
  subject: null,
  broker_group: null,
  sequence: null,
  text: "",
  ...more,
});
const billing = place("consumer_group", "billing", { subject: "order.paid" });

beforeEach(() => localStorage.clear());

async function opened(results: object[], unreachable = {}, rights = ["read"]) {
  const { asked } = answer({
    "GET /api/v1/me/": me({ teams: [], rights }),
    "GET /api/v1/jump/": { results, unreachable },
  });
  const page = await mount(Jump, "/");
  await userEvent.keyboard("{Control>}k{/Control}");
  const field = await screen.findByRole("combobox");
  const texts = () =>
    asked.filter(({ url }) => url.pathname.endsWith("/jump/")).map(({ url }) => url.searchParams.get("q"));
  return { page, field, texts };
}

test("what the API finds is gone to by keyboard, and is offered again", async () => {
  const { page, field, texts } = await opened([billing]);
  await userEvent.type(field, "bill");
  const option = await screen.findByRole("option", { name: /billing/ });
  expect(option).toHaveAttribute("aria-selected", "true");
  expect(field).toHaveAttribute("aria-activedescendant", option.id);
  expect(texts()).toEqual(["bill"]);
  await userEvent.keyboard("{Enter}");
  await waitFor(() => expect(page.address()).toBe("/groups/order.paid/billing"));
  expect(recentOf(me().id).map(({ label, hint }) => [label, hint])).toEqual([
    ["billing", "consumer group · order.paid"],
  ]);
});

test("pages are there without the API; arrows go round", async () => {
  const { page, field } = await opened([]);
  await userEvent.type(field, "s");
  const [first] = screen.getAllByRole("option");
  expect(first).toHaveAttribute("aria-selected", "true");
  await userEvent.keyboard("{ArrowUp}");
  expect(screen.getAllByRole("option").at(-1)).toHaveAttribute("aria-selected", "true");
  await userEvent.keyboard("{ArrowDown}{Enter}");
  await waitFor(() => expect(page.address()).not.toBe("/"));
});

test("says when nothing is found, and what could not be searched", async () => {
  const { field } = await opened([], { b1: "nobody answers" });
  await userEvent.type(field, "zzz");
  expect(await screen.findByText(/^No results/)).toBeInTheDocument();
  expect(screen.getByText("b1 could not be searched: nobody answers")).toBeInTheDocument();
});

test("an error is shown, and pages can be gone to all the same", async () => {
  answer({ "GET /api/v1/me/": me({ teams: [] }) });
  await mount(Jump, "/");
  await userEvent.keyboard("{Control>}k{/Control}");
  await userEvent.type(await screen.findByRole("combobox"), "subj");
  expect(await screen.findByText("Not found")).toBeInTheDocument();
  expect(screen.getByRole("option", { name: "Subjects" })).toBeInTheDocument();
});

test("where one went lately is offered before anything is typed", async () => {
  remember(me().id, {
    id: "x",
    kind: "consumer_group",
    label: "billing",
    hint: "order.paid",
    address: { to: "/groups/$subject/$group", params: { subject: "order.paid", group: "billing" } },
  });
  const { texts } = await opened([]);
  expect(screen.getAllByRole("option")[0]).toHaveTextContent("billing");
  expect(texts()).toEqual([]);
});

test("a message ID alone leads to the page that searches all subjects", async () => {
  const { page, field } = await opened([]);
  await userEvent.type(field, "261128.021112.127.0.0.1.1.0");
  await userEvent.click(await screen.findByRole("option", { name: /^Find message 261128/ }));
  await waitFor(() => expect(page.address()).toBe("/trace?message_id=261128.021112.127.0.0.1.1.0"));
});

test("what one lacks the right to is not offered", async () => {
  const { field, texts } = await opened([billing]);
  await userEvent.type(field, "pause bill");
  expect(await screen.findByText(/^No results/)).toBeInTheDocument();
  expect(texts().at(-1)).toBe("bill");
});

test("an action opens its dialog at the page of the group", async () => {
  const { page, field } = await opened([billing, place("subject", "billing.done")], {}, ["read", "change_groups"]);
  await userEvent.type(field, "pause bill");
  const options = await screen.findAllByRole("option");
  expect(options.map((option) => option.textContent)).toEqual(["Pause or resume billingorder.paid"]);
  await userEvent.keyboard("{Enter}");
  await waitFor(() => expect(page.address()).toBe("/groups/order.paid/billing?do=pause"));
});

test("an action with a typing error is offered below what has the whole text in its name", async () => {
  const { page, field, texts } = await opened([billing], {}, ["read", "change_groups"]);
  await userEvent.type(field, "puase bill");
  const meant = await screen.findByRole("group", { name: "Did you mean" });
  await waitFor(() => expect(meant).toHaveTextContent("Pause or resume billing"));
  expect(texts().toSorted()).toEqual(["bill", "puase bill"]);
  expect(screen.getAllByRole("option")[0]).toHaveTextContent("consumer group · order.paid");
  await userEvent.click(within(meant).getByRole("option"));
  await waitFor(() => expect(page.address()).toBe("/groups/order.paid/billing?do=pause"));
});

test("a page is found with a typing error, below the names that the API found", async () => {
  const { field } = await opened([billing]);
  await userEvent.type(field, "sbujects");
  await waitFor(() =>
    expect(screen.getAllByRole("option").map(({ textContent }) => textContent)).toEqual([
      expect.stringContaining("billing"),
      "Subjects",
    ]),
  );
  expect(screen.getByRole("group", { name: "Did you mean" })).toHaveTextContent("Subjects");
  await userEvent.clear(field);
  await userEvent.type(field, "subjects");
  await waitFor(() => expect(screen.queryByRole("group", { name: "Did you mean" })).toBeNull());
});
