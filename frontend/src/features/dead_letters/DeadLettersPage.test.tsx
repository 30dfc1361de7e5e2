import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import DeadLettersPage from "@/features/dead_letters/DeadLettersPage";
import { attempt, letter, story } from "@/features/dead_letters/stories.testing";
import { NO_SUMS } from "@/features/dead_letters/work";
import { me } from "@/test/me";
import { answer, mount } from "@/test/mount";

const BASE = "/api/v1/dead-letters/order.paid/billing/";
const ADDRESS = "/dead-letters/order.paid/billing";
const PATH = "/dead-letters/$subject/$group";

const counts = {
  results: [
    {
      subject: "order.paid",
      group: "billing",
      stored: 450,
      open: 450,
      replayed: 0,
      deleted: 0,
      oldest: null,
      newest: null,
      broker_groups: { g1: 450 },
    },
  ],
  next: null,
  unreachable: {},
};
const common = (rights: string[]) => ({
  "GET /api/v1/me/": me({ rights }),
  "GET /api/v1/subjects/order.paid/": { owner: "shop", broker_groups: ["g1"], is_archived: false },
  "GET /api/v1/dead-letters/": counts,
  [`GET ${BASE}causes/`]: {
    results: [
      { cause: "AddressMissing", messages: 1200 },
      { cause: null, messages: 3 },
    ],
    others: 0,
    uncounted: 5,
    unreachable: {},
    timeline: {
      step_seconds: 60,
      at: ["2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"],
      series: [
        { cause: "AddressMissing", messages: [1200, 0] },
        { cause: null, messages: [0, 3] },
      ],
      others: [0, 0],
    },
    groups_left_out: false,
  },
  [`GET ${BASE}`]: { results: [letter("1", { cause: "AddressMissing" }), letter("2")], next: null, unreachable: {} },
});
const progress = (more: object) => ({ ...NO_SUMS, dry_run: false, stopped: null, next: null, ...more });

test("a viewer sees letters and can decide nothing", async () => {
  answer(common(["read"]));
  await mount(DeadLettersPage, ADDRESS, PATH);
  expect(await screen.findByRole("button", { name: "Open dead letter g1:1" })).toBeInTheDocument();
  expect(screen.getAllByText("3 of 3 attempts failed")).toHaveLength(2);
  expect(screen.queryByRole("button", { name: "Replay all" })).not.toBeInTheDocument();
  expect(screen.queryByRole("checkbox")).not.toBeInTheDocument();
});

test("replaying all is tried to its end first, then takes the group's name", async () => {
  const { asked } = answer({
    ...common(["read", "send"]),
    [`POST ${BASE}replay/`]: (url: URL) =>
      progress({ looked_at: 200, done: 200, dry_run: url.searchParams.get("dry_run") === "true" }),
  });
  await mount(DeadLettersPage, ADDRESS, PATH);
  await userEvent.click(await screen.findByRole("button", { name: "Replay all" }));
  const dialog = within(await screen.findByRole("dialog"));
  await userEvent.click(dialog.getByRole("button", { name: "Preview" }));
  expect(await dialog.findByText("Copies of 200 dead letters will be sent.")).toBeInTheDocument();
  const go = dialog.getByRole("button", { name: "Replay 200 dead letters" });
  expect(go).toBeDisabled();
  await userEvent.type(dialog.getByLabelText("Type billing to confirm"), "billing");
  expect(go).toBeEnabled();
  await userEvent.click(go);
  expect(await dialog.findByText("200 dead letters replayed.")).toBeInTheDocument();
  const posts = asked.filter(({ method }) => method === "POST");
  expect(posts.map(({ url }) => url.searchParams.get("dry_run"))).toEqual(["true", "false"]);
  expect(posts[1]?.body).toMatchObject({ all: true, expected: 200 });
});

test("a replay that the system stops says why, and goes on from there", async () => {
  let real = 0;
  const { asked } = answer({
    ...common(["read", "send"]),
    [`POST ${BASE}replay/`]: (url: URL) => {
      if (url.searchParams.get("dry_run") === "true")
        return real === 0 ? progress({ looked_at: 400, done: 400 }) : progress({ looked_at: 201, done: 201 });
      real += 1;
      return real === 1
        ? progress({ looked_at: 200, done: 199, unknown: 1, stopped: "g1 does not answer", next: "c1" })
        : progress({ looked_at: 200, done: 200, already: 1 });
    },
  });
  await mount(DeadLettersPage, ADDRESS, PATH);
  await userEvent.click(await screen.findByRole("button", { name: "Replay all" }));
  const dialog = within(await screen.findByRole("dialog"));
  await userEvent.click(dialog.getByRole("button", { name: "Preview" }));
  await userEvent.type(await dialog.findByLabelText("Type billing to confirm"), "billing");
  await userEvent.click(dialog.getByRole("button", { name: "Replay 400 dead letters" }));
  expect(await dialog.findByText("Reason: g1 does not answer")).toBeInTheDocument();
  await userEvent.click(dialog.getByRole("button", { name: "Continue" }));
  expect(await dialog.findByText("399 dead letters replayed.")).toBeInTheDocument();
  expect(asked.at(-1)?.body).toMatchObject({ cursor: "c1", expected: 201 });
});

test("selected letters are deleted by their names", async () => {
  const { asked } = answer({
    ...common(["read", "change_groups"]),
    [`POST ${BASE}delete/`]: progress({ looked_at: 1, done: 1 }),
  });
  await mount(DeadLettersPage, ADDRESS, PATH);
  await userEvent.click(await screen.findByRole("checkbox", { name: "Select g1:2" }));
  await userEvent.click(screen.getByRole("button", { name: "Delete" }));
  const dialog = within(await screen.findByRole("dialog"));
  await userEvent.click(dialog.getByRole("button", { name: "Preview" }));
  await userEvent.type(await dialog.findByLabelText("Type billing to confirm"), "billing");
  await userEvent.click(dialog.getByRole("button", { name: "Delete 1 dead letter" }));
  expect(await dialog.findByText("1 dead letter deleted.")).toBeInTheDocument();
  expect(asked.filter(({ method }) => method === "POST").at(-1)?.body).toMatchObject({ sequences: { g1: ["2"] } });
});

test("an opened letter is edited and replayed to another subject", async () => {
  const { asked } = answer({
    ...common(["read", "read_messages", "send"]),
    [`GET ${BASE}g1/1/`]: story({
      sequence: "1",
      properties: { data: '{"street":""}', qmq_times: "4" },
      decoding: { format: "avro", problem: null },
    }),
    [`POST ${BASE}replay/`]: progress({ looked_at: 1, done: 1 }),
  });
  await mount(DeadLettersPage, `${ADDRESS}?letter=g1:1`, PATH);
  await userEvent.click(await screen.findByText("Edit and replay…"));
  const body = await screen.findByLabelText("Value of data");
  expect(screen.getByText("The body is shown as JSON. The copy is encoded as avro again.")).toBeInTheDocument();
  expect(screen.queryByDisplayValue("4")).toBeNull();
  await userEvent.clear(body);
  await userEvent.type(body, "fixed");
  await userEvent.click(screen.getByText("Another subject, as new messages"));
  const preview = screen.getByText("Preview").closest("button");
  expect(preview).toBeDisabled();
  await userEvent.type(screen.getByLabelText(/Other subject/), "repairs");
  await userEvent.click(screen.getByText("Preview"));
  await userEvent.click(await screen.findByText("Replay 1 dead letter", { selector: "button *" }));
  expect(await screen.findByText("1 dead letter replayed.")).toBeInTheDocument();
  const posts = asked.filter(({ method }) => method === "POST");
  expect(posts.map(({ url }) => url.searchParams.get("dry_run"))).toEqual(["true", "false"]);
  expect(posts[1]?.body).toMatchObject({
    sequences: { g1: ["1"] },
    to: "other",
    other_subject: "repairs",
    edit: { properties: { data: "fixed" }, tags: [] },
  });
});

test("an opened letter shows its attempts side by side, and what is not known as unknown", async () => {
  const told = story({
    sequence: "1",
    story: [
      attempt(1, { consumer_id: null, why: "its consumer is gone" }),
      attempt(2, { properties: { id: "7", error: "no card" } }),
    ],
    properties: { id: "7", error: "no card" },
    holes: ["attempt 3 was not found"],
  });
  answer({ ...common(["read"]), [`GET ${BASE}g1/1/`]: told });
  const page = await mount(DeadLettersPage, ADDRESS, PATH);
  await userEvent.click(await screen.findByRole("button", { name: "Open dead letter g1:1" }));
  const compared = within(await screen.findByRole("region", { name: "Compare attempts" }));
  expect(compared.getByRole("link", { name: "Attempt 2" })).toHaveAttribute("href", "/trace/order.paid/g1/2");
  expect(compared.getByRole("rowheader", { name: "error" })).toBeInTheDocument();
  expect(compared.queryByRole("rowheader", { name: "id" })).not.toBeInTheDocument();
  expect(compared.getAllByLabelText("unknown: its consumer is gone").length).toBeGreaterThan(0);
  expect(screen.getByText("attempt 3 was not found")).toBeInTheDocument();
  await waitFor(() => expect(page.address()).toContain("letter=g1%3A1"));
});

test("dead letters are filtered by their messages, by those who can read them", async () => {
  const { asked } = answer(common(["read", "read_messages"]));
  await mount(DeadLettersPage, ADDRESS, PATH);
  await userEvent.type(await screen.findByLabelText("Filter"), "body.total > 5{Enter}");
  await waitFor(() => expect(asked.some(({ url }) => url.searchParams.get("filter") === "body.total > 5")).toBe(true));
});

test("who can't read messages can't filter them", async () => {
  answer(common(["read"]));
  await mount(DeadLettersPage, ADDRESS, PATH);
  expect(await screen.findByRole("cell", { name: "AddressMissing" })).toBeInTheDocument();
  expect(screen.queryByLabelText("Filter")).not.toBeInTheDocument();
});

test("causes are listed, counted and filtered", async () => {
  const { asked } = answer(common(["read"]));
  const page = await mount(DeadLettersPage, ADDRESS, PATH);
  expect(await screen.findByRole("cell", { name: "AddressMissing" })).toBeInTheDocument();
  expect(screen.getByRole("cell", { name: "not recorded" })).toBeInTheDocument();
  expect(await screen.findByText("5 older dead letters are not counted.")).toBeVisible();
  await userEvent.click(await screen.findByRole("button", { name: "AddressMissing (1,200)" }));
  await waitFor(() => expect(page.address()).toContain("cause=AddressMissing"));
  await waitFor(() => {
    expect(asked.some(({ url }) => url.searchParams.get("cause") === "AddressMissing")).toBe(true);
  });
  expect(screen.getByRole("combobox", { name: "Cause" })).toHaveValue("AddressMissing");
});

test.each([
  [["AddressMissing", "AddressMissing", "AddressMissing"], "Cause: AddressMissing (3 of 3 attempts)"],
  [
    ["TimeoutError", "AddressMissing", "AddressMissing"],
    "Cause: AddressMissing (2 of 3 attempts) · Cause: TimeoutError (1 of 3 attempts)",
  ],
  [[null, null, null], "The consumer recorded no cause."],
])("an opened letter states the causes of its attempts: %j", async (causes, text) => {
  const told = story({
    sequence: "1",
    cause: causes[2] ?? null,
    story: causes.map((cause, at) => attempt(at + 1, { cause })),
  });
  answer({ ...common(["read"]), [`GET ${BASE}g1/1/`]: told });
  await mount(DeadLettersPage, ADDRESS, PATH);
  await userEvent.click(await screen.findByRole("button", { name: "Open dead letter g1:1" }));
  expect(await screen.findByText(text)).toBeInTheDocument();
});

test("an opened letter whose attempts are gone states the last cause", async () => {
  answer({ ...common(["read"]), [`GET ${BASE}g1/1/`]: story({ sequence: "1", cause: "AddressMissing" }) });
  await mount(DeadLettersPage, ADDRESS, PATH);
  await userEvent.click(await screen.findByRole("button", { name: "Open dead letter g1:1" }));
  expect(await screen.findByText("Cause of the last attempt: AddressMissing")).toBeInTheDocument();
});
