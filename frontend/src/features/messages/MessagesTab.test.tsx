import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import MessagesTab from "@/features/messages/MessagesTab";
import { me } from "@/test/me";
import { answer, mount } from "@/test/mount";

const Page = () => <MessagesTab subject="order.paid" />;
const BASE = "/api/v1/subjects/order.paid/messages/";

const subject = { name: "order.paid", owner: "shop", broker_groups: ["g1", "g2"], is_archived: false };
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
  decoding: null,
  withheld: null,
  ...more,
});
const page = (results: object[], next: string | null = null, unreachable: object = {}) => ({
  results,
  next,
  unreachable,
});
const common = (rights: string[]) => ({
  "GET /api/v1/me/": me({ rights }),
  "GET /api/v1/subjects/order.paid/": subject,
});

test("pages without the wanted id are passed over; what could not be asked is said", async () => {
  const { asked } = answer({
    ...common(["read"]),
    [`GET ${BASE}`]: (url: URL) =>
      url.searchParams.get("cursor") ? page([row("7")]) : page([], "c2", { g2: "it does not answer" }),
  });
  await mount(Page, "/subjects/order.paid?by=id&message_id=id-7");
  expect(await screen.findByRole("button", { name: /Open message g1:7$/ })).toBeInTheDocument();
  const questions = asked.filter(({ url }) => url.pathname === BASE).map(({ url }) => url.searchParams);
  expect(questions.map((one) => [one.get("message_id"), one.get("cursor")])).toEqual([
    ["id-7", null],
    ["id-7", "c2"],
  ]);
  expect(screen.getByText(/it does not answer/)).toBeInTheDocument();
});

test("a message that is masked says why instead of what it holds, and nothing can be sent or searched", async () => {
  const masked = row("7", { properties: null, masked: true });
  answer({ ...common(["read"]), [`GET ${BASE}`]: page([masked]), [`GET ${BASE}g1/7/`]: masked });
  await mount(Page, "/subjects/order.paid?message=g1:7");
  expect(await screen.findByText("You don't have permission to read this message")).toBeInTheDocument();
  expect(screen.queryByRole("button", { name: "Send a message", hidden: true })).not.toBeInTheDocument();
});

test("searching without the right says which right it takes and asks nothing", async () => {
  const { asked } = answer(common(["read"]));
  await mount(Page, "/subjects/order.paid?view=search&filter=eu");
  expect(await screen.findByText("You need permission to read messages to search them")).toBeInTheDocument();
  expect(asked.some(({ url }) => url.pathname.endsWith("/search/"))).toBe(false);
});

test("a search goes on step by step to its end and tells what it looked at", async () => {
  const found = (results: object[], next: string | null, progress: number) => ({
    ...page(results, next),
    scanned: next ? 2000 : 4000,
    total: 4000,
    unreadable: next ? 1 : 0,
    costly: 0,
    expression: "true",
    searched: ["properties"],
    progress,
    end: next === null,
  });
  const { asked } = answer({
    ...common(["read", "read_messages"]),
    [`GET ${BASE}search/`]: (url: URL) =>
      url.searchParams.get("cursor") ? found([row("9")], null, 1) : found([row("3")], "c2", 0.5),
  });
  await mount(Page, "/subjects/order.paid?view=search&filter=region%3Deu+gift");
  expect(await screen.findByText(/2 matches in 4,000 messages/)).toBeInTheDocument();
  expect(screen.getByText(/1 message could not be read/)).toBeInTheDocument();
  const first = asked.find(({ url }) => url.pathname === `${BASE}search/`)?.url.searchParams;
  expect(first?.get("filter")).toBe("region=eu gift");
});

test("a test message is sent at once, and its receipt leads to it", async () => {
  const { asked } = answer({
    ...common(["read", "send"]),
    [`GET ${BASE}`]: page([row("1")]),
    [`POST ${BASE}`]: (url: URL) => ({
      dry_run: url.searchParams.get("dry_run") === "true",
      message_id: "new-id",
      subject: "order.paid",
      broker_group: "g1",
      attempts: 1,
      due_at: null,
    }),
  });
  const shown = await mount(Page, "/subjects/order.paid");
  await userEvent.click(await screen.findByRole("button", { name: "Send a message" }));
  const dialog = within(await screen.findByRole("dialog"));
  expect(dialog.getByRole("button", { name: "Send" })).toBeDisabled();
  await userEvent.type(dialog.getByLabelText("Body"), "hello");
  await userEvent.click(dialog.getByRole("button", { name: "Send" }));
  await userEvent.click(await screen.findByRole("link", { name: "Show message" }));
  await waitFor(() => expect(shown.address()).toContain("message_id=new-id"));
  const sent = asked.filter(({ method }) => method === "POST");
  expect(sent.map(({ url, body }) => [url.searchParams.get("dry_run"), body])).toEqual([
    ["false", { properties: { data: "hello" } }],
  ]);
});

test("a search that not all broker groups answered is not called complete", async () => {
  const away = { ...page([], null, { g1: "it does not answer" }), scanned: 0, total: 0, unreadable: 0, costly: 0 };
  answer({
    ...common(["read", "read_messages"]),
    [`GET ${BASE}search/`]: { ...away, expression: null, searched: [], progress: 0 },
  });
  await mount(Page, "/subjects/order.paid?view=search&filter=a%3Db");
  expect(await screen.findByText(/Search ended without the broker groups below/)).toBeInTheDocument();
  expect(screen.getByText("0%")).toBeInTheDocument();
  expect(screen.queryByText(/Search completed/)).not.toBeInTheDocument();
});

test("nothing found says what was not searched", async () => {
  const nothing = { ...page([]), scanned: 10, total: 10, unreadable: 0, costly: 0, progress: 1, end: true };
  answer({
    ...common(["read", "read_messages"]),
    [`GET ${BASE}search/`]: { ...nothing, expression: 'properties["a"] == "b"', searched: ["properties"] },
  });
  await mount(Page, "/subjects/order.paid?view=search&filter=a%3Db");
  expect(await screen.findByText("Not searched: the body and tags.")).toBeInTheDocument();
  expect(screen.getByText('properties["a"] == "b"')).toBeInTheDocument();
});

test("a click on a row opens it, J goes to the next one, and an edited copy says where it comes from", async () => {
  const rows = [row("9"), { ...row("8"), decoding: { format: "msgpack", problem: null } }];
  const { asked } = answer({
    ...common(["read", "read_messages", "send"]),
    [`GET ${BASE}`]: page(rows),
    [`GET ${BASE}g1/9/`]: rows[0],
    [`GET ${BASE}g1/8/`]: rows[1],
    "GET /api/v1/subjects/": { results: [], next: null },
    [`POST ${BASE}`]: { message_id: "new", subject: "order.paid", broker_group: "g1", attempts: 1, due_at: null },
  });
  const shown = await mount(Page, "/subjects/order.paid");
  await userEvent.click(await screen.findByText('{"n":9}'));
  await waitFor(() => expect(shown.address()).toContain("message=g1%3A9"));
  await screen.findByRole("button", { name: "Next message (J)" });
  await userEvent.keyboard("j");
  await waitFor(() => expect(shown.address()).toContain("message=g1%3A8"));
  expect(screen.getByRole("button", { name: "Next message (J)" })).toBeDisabled();
  await userEvent.click(await screen.findByRole("button", { name: "Edit and send again" }));
  const body = await screen.findByLabelText("Body");
  expect(body).toHaveValue('{"n":8}');
  expect(screen.getByText("The body is shown as JSON. The copy is encoded as msgpack again.")).toBeInTheDocument();
  await userEvent.click(screen.getByRole("button", { name: "Preview" }));
  await userEvent.click(await screen.findByRole("button", { name: "Send" }));
  await waitFor(() => expect(asked.filter(({ method }) => method === "POST")).toHaveLength(2));
  const origin = { subject: "order.paid", broker_group: "g1", sequence: "8" };
  expect(asked.filter(({ method }) => method === "POST").map(({ body }) => body)).toEqual([
    { properties: { data: '{"n":8}' }, copy_of: origin },
    { properties: { data: '{"n":8}' }, copy_of: origin },
  ]);
});
