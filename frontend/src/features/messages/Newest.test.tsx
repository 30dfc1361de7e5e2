import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import Newest from "@/features/messages/Newest";
import { answer, mount } from "@/test/mount";

const Page = () => <Newest subject="order.paid" />;
const URL = "/api/v1/subjects/order.paid/messages/";

const row = (sequence: string, more: object = {}) => ({
  broker_group: "g1",
  sequence,
  message_id: `id-${sequence}`,
  stored_at: "2026-01-01T00:00:00Z",
  created_at: "2026-01-01T00:00:00Z",
  tags: [],
  properties: { data: `{"n":${sequence}}` },
  size: 100,
  masked: false,
  masked_values: [],
  withheld: null,
  ...more,
});
const page = (results: object[], unreachable: object = {}) => ({ results, next: null, unreachable });

test("five messages, each a link to the whole one; what could not be asked is named", async () => {
  const { asked } = answer({ [`GET ${URL}`]: page([row("8"), row("7")], { g2: "no response" }) });
  await mount(Page, "/subjects/order.paid");
  const link = await screen.findByRole("link", { name: /Open message g1:8$/ });
  expect(link).toHaveAttribute("href", "/subjects/order.paid?tab=messages&message=g1%3A8");
  expect(screen.getByText('{"n":7}')).toBeVisible();
  expect(screen.getByText(/no response/)).toBeVisible();
  expect(asked.map(({ url }) => url.searchParams.get("limit"))).toEqual(["5"]);
});

test("contents are hidden without the right to read them, and masked values are named", async () => {
  const masked_values = [{ rule: "cards", path: "body.card", count: 1 }];
  answer({
    [`GET ${URL}`]: page([row("8", { masked: true, properties: null }), row("7", { masked_values })]),
  });
  await mount(Page, "/subjects/order.paid");
  expect(await screen.findByText("hidden")).toHaveAttribute("title", expect.stringContaining("permission"));
  expect(screen.getByTitle(/cards/)).toHaveTextContent("masked");
});

test("messages are read again only when asked for", async () => {
  const answers = [page([]), page([row("1")])];
  const { asked } = answer({ [`GET ${URL}`]: () => answers.shift() });
  await mount(Page, "/subjects/order.paid");
  expect(await screen.findByText("No stored messages.")).toBeVisible();
  window.dispatchEvent(new Event("visibilitychange"));
  await userEvent.click(screen.getByRole("button", { name: "Read again" }));
  expect(await screen.findByText('{"n":1}')).toBeVisible();
  expect(asked).toHaveLength(2);
});
