import { screen, within } from "@testing-library/react";
import { expect, test } from "vitest";
import TracePage from "@/features/trace/TracePage";
import { answer, mount } from "@/test/mount";

const PATH = "/trace/$subject/$brokerGroup/$sequence";
const message = {
  broker_group: "g1",
  sequence: "7",
  message_id: "id-7",
  stored_at: "2026-01-01T00:00:10Z",
  created_at: "2026-01-01T00:00:00Z",
  tags: [],
  properties: { data: "{}" },
  size: 10,
  masked: false,
  masked_values: [],
  decoding: null,
  withheld: null,
};
const standing = (group: string, more: object) => ({
  group,
  broadcast: false,
  state: "acked",
  known: true,
  why: null,
  consumer_id: "c1",
  pull_sequence: "1",
  pulled_at: "2026-01-01T00:00:12Z",
  acked_at: "2026-01-01T00:00:15Z",
  retries: [],
  dead_letters: [],
  links_complete: true,
  links_why: null,
  ...more,
});
const trace = (groups: object[], next_after: string | null = null) => ({
  subject: "order.paid",
  broker_group: "g1",
  sequence: "7",
  message,
  message_why: null,
  original: null,
  groups,
  next_after,
  scope: "all broker groups",
});

test("each group's steps with the time between; what is not known is not guessed", async () => {
  answer({
    "GET /api/v1/subjects/order.paid/messages/g1/7/trace/": trace([
      standing("billing", {}),
      standing("audit", {
        state: null,
        known: false,
        why: "its history is gone",
        consumer_id: null,
        pulled_at: null,
        acked_at: null,
      }),
    ]),
  });
  await mount(TracePage, "/trace/order.paid/g1/7", PATH);
  const billing = within(await screen.findByRole("list", { name: "History in group billing" }));
  expect(billing.getAllByRole("listitem").map((item) => item.getAttribute("data-step"))).toEqual(["pulled", "acked"]);
  expect(billing.getByText("2s later")).toBeInTheDocument();
  expect(billing.getByText("3s later")).toBeInTheDocument();
  expect(billing.getByText("by c1")).toBeInTheDocument();
  expect(screen.getByText("Unknown")).toBeInTheDocument();
  expect(screen.getByText("Reason from the nodes: its history is gone.")).toBeInTheDocument();
});

test("a dead letter leads to its page", async () => {
  const dead = {
    subject: "%DEAD_RETRY%order.paid%billing",
    broker_group: "g2",
    sequence: "4",
    stored_at: "2026-01-01T00:01:00Z",
    attempt: 4,
    state: null,
  };
  answer({
    "GET /api/v1/subjects/order.paid/messages/g1/7/trace/": trace([
      standing("billing", { state: "dead", dead_letters: [dead] }),
    ]),
  });
  await mount(TracePage, "/trace/order.paid/g1/7", PATH);
  expect(await screen.findByRole("link", { name: "Open dead letter" })).toHaveAttribute(
    "href",
    "/dead-letters/order.paid/billing?letter=g2%3A4",
  );
});

test("more groups come when they are asked for", async () => {
  const { asked } = answer({
    "GET /api/v1/subjects/order.paid/messages/g1/7/trace/": (url: URL) =>
      url.searchParams.get("after") ? trace([standing("shipping", {})]) : trace([standing("billing", {})], "billing"),
  });
  await mount(TracePage, "/trace/order.paid/g1/7", PATH);
  (await screen.findByRole("button", { name: "More consumer groups" })).click();
  expect(await screen.findByRole("link", { name: "shipping" })).toBeInTheDocument();
  expect(asked.at(-1)?.url.searchParams.get("after")).toBe("billing");
});
