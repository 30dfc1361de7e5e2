import { configure, screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test, vi } from "vitest";
import DelayedPage from "@/features/delayed/DelayedPage";
import { me } from "@/test/me";
import { answer, mount, type Answers } from "@/test/mount";

const HOUR_MS = 3_600_000;
const DAY = "2026-12-01";
const ADDRESS = `/delayed?from=${DAY}`;
const hour = "2026-12-01T10:00:00.000Z";
const next = new Date(Date.parse(hour) + HOUR_MS).toISOString();
const LIST = "/api/v1/delayed-messages/";

const row = (message_id: string, more: object = {}) => ({
  message_id,
  subject: "order.remind",
  delay_group: "d1",
  due_at: "2026-12-01T10:20:00Z",
  state: "pending",
  created_at: "2026-11-21T10:00:00Z",
  tags: [],
  properties: { order: "17" },
  size: 120,
  masked: false,
  masked_values: [],
  decoding: null,
  may_change: true,
  ...more,
});
const operator = me({ username: "olga", teams: [], rights: ["read", "read_messages", "change_delayed"] });
const calendar = (more: object = {}) => ({ subject: null, hours: [{ hour, pending: 7 }], unreachable: {}, ...more });

function answers(more: Answers = {}): Answers {
  return {
    "GET /api/v1/me/": operator,
    "GET /api/v1/subjects/": { results: [], next: null, previous: null },
    [`GET ${LIST}calendar/`]: calendar(),
    [`GET ${LIST}`]: { results: [row("m1"), row("m2", { state: "delivered" })], next: null, unreachable: {} },
    [`GET ${LIST}message/`]: { results: [row("m1")], unreachable: {} },
    ...more,
  };
}

const changed = (dry_run: boolean) => ({
  dry_run,
  message_id: "m1",
  subject: "order.remind",
  outcome: "done",
  state_before: "pending",
  state: "cancelled",
  due_at: "2026-12-01T10:20:00Z",
});

// The page has hundreds of fields: jsdom takes its time on a busy machine.
configure({ asyncUtilTimeout: 20_000 });
vi.setConfig({ testTimeout: 60_000 });

// Fields of the calendar are looked for by title: to compute hundreds of roles and names takes jsdom seconds.
beforeEach(() => {
  localStorage.setItem("qmq.zone", "utc");
  vi.stubGlobal(
    "WebSocket",
    class {
      close() {
        return;
      }
    },
  );
});

/** The button that applies what was previewed: its words are those of the button that opens the dialog. */
function applyButton(): Element {
  const found = document.querySelector("[data-action=apply]");
  if (!found) throw new Error("nothing can be applied");
  return found;
}

test("an hour of the calendar shows its messages; chosen again, all", async () => {
  const { asked } = answer(answers());
  const page = await mount(DelayedPage, ADDRESS);
  const cell = await screen.findByTitle(/7 pending$/);
  await userEvent.click(cell);
  await waitFor(() => {
    const last = asked.filter(({ url }) => url.pathname === LIST).at(-1)?.url.searchParams;
    expect([last?.get("due_from"), last?.get("due_to"), last?.get("subject")]).toEqual([hour, next, null]);
  });
  expect(page.address()).toContain("due_from=");
  await userEvent.click(screen.getByTitle(/7 pending$/));
  await waitFor(() => expect(page.address()).not.toContain("due_from="));
});

test.each([
  ["order=17", ["order=17", null]],
  ["order = 17 && size > 5", [null, "order = 17 && size > 5"]],
])("the list of a subject is filtered: %s", async (filter, wanted) => {
  const { asked } = answer(answers());
  await mount(DelayedPage, `${ADDRESS}&subject=order.remind`);
  await userEvent.type(await screen.findByLabelText("Filter"), `${filter}{Enter}`);
  await waitFor(() => {
    const last = asked.filter(({ url }) => url.pathname === LIST).at(-1)?.url.searchParams;
    expect([last?.get("match"), last?.get("filter")]).toEqual(wanted);
  });
});

test("a filter without a subject is not applied, and the page says so", async () => {
  const { asked } = answer(answers());
  await mount(DelayedPage, `${ADDRESS}&filter=order%3D17`);
  expect(await screen.findByText("Filter not applied. Select a subject first.")).toBeInTheDocument();
  expect(asked.some(({ url }) => url.searchParams.has("match") || url.searchParams.has("filter"))).toBe(false);
});

test("the calendar is walked by keys", async () => {
  answer(answers());
  const page = await mount(DelayedPage, ADDRESS);
  (await screen.findByTitle(/^Tue,? 1 Dec,? 00:00/)).focus();
  await userEvent.keyboard("{ArrowRight}{ArrowDown}{ArrowDown}");
  expect(document.activeElement?.getAttribute("data-at")).toBe("2-1");
  await userEvent.keyboard("{Home}{ArrowUp}");
  expect(document.activeElement?.getAttribute("data-at")).toBe("1-0");
  await userEvent.keyboard("{Enter}");
  await waitFor(() => expect(decodeURIComponent(page.address())).toContain("due_from=2026-12-02T00:00:00.000Z"));
});

test("days and the window have totals", async () => {
  const later = { hour: "2026-12-01T12:00:00.000Z", pending: 1_200 };
  answer(answers({ [`GET ${LIST}calendar/`]: calendar({ hours: [{ hour, pending: 7 }, later] }) }));
  await mount(DelayedPage, ADDRESS);
  expect(await screen.findByText("1,207 pending")).toBeVisible();
  expect(document.querySelector(`[data-total="${DAY}"]`)).toHaveTextContent("1.2K");
  expect(document.querySelector('[data-total="2026-12-02"]')).toHaveTextContent("");
});

test("the body of a message is decoded, and its buttons are below it", async () => {
  const opened = row("m1", { properties: { data: '{"order":{"id":17}}' } });
  answer(answers({ [`GET ${LIST}message/`]: { results: [opened], unreachable: {} } }));
  await mount(DelayedPage, `${ADDRESS}&message=m1&of=order.remind`);
  const button = await screen.findByText("Cancel message");
  expect(button.closest(".dialog-footer")).not.toBeNull();
  expect(screen.getByText("Body")).toBeVisible();
  await waitFor(() => expect(document.querySelector("[data-body]")?.textContent).toMatch(/order.*id.*17/s));
});

test("hours are unknown, not zero, while a delay group does not answer", async () => {
  answer(answers({ [`GET ${LIST}calendar/`]: calendar({ unreachable: { d2: "d2-a does not answer" } }) }));
  await mount(DelayedPage, ADDRESS);
  expect(await screen.findByTitle(/at least 7 pending/)).toHaveTextContent("7+");
  expect(screen.getByText(/d2-a does not answer/)).toBeInTheDocument();
  expect(screen.getByTitle(/^Tue,? 1 Dec,? 11:00.*unknown/)).toHaveTextContent("?");
});

test("a message is cancelled after its preview was seen", async () => {
  const { asked } = answer(
    answers({ [`POST ${LIST}cancel/`]: (url: URL) => changed(url.searchParams.get("dry_run") === "true") }),
  );
  await mount(DelayedPage, `${ADDRESS}&message=m1&of=order.remind`);
  await userEvent.click(await screen.findByText("Cancel message"));
  await userEvent.click(await waitFor(applyButton));
  await waitFor(() => {
    const posts = asked.filter(({ method }) => method === "POST");
    expect(posts.map(({ url }) => url.searchParams.get("dry_run"))).toEqual(["true", "false"]);
    expect(posts[1]?.body).toEqual({
      message_id: "m1",
      subject: "order.remind",
      was_due_at: "2026-12-01T10:20:00Z",
      reason: "",
    });
  });
});

test("what came too late is said in full, and nothing can be applied", async () => {
  answer(
    answers({
      [`POST ${LIST}cancel/`]: Response.json(
        { code: "delayed.too_late", title: "Conflict", detail: "Too late: message m1 is already delivered." },
        { status: 409 },
      ),
    }),
  );
  await mount(DelayedPage, `${ADDRESS}&message=m1&of=order.remind`);
  await userEvent.click(await screen.findByText("Cancel message"));
  expect(
    await screen.findByText(
      "Too late: message m1 is already delivered. Nothing was changed. The current state is shown below.",
    ),
  ).toBeInTheDocument();
  expect(applyButton).toThrow();
});

test("whoever may not change a message can neither choose nor cancel it", async () => {
  const mine = row("m1", { may_change: false, masked: true, properties: null });
  answer(
    answers({
      "GET /api/v1/me/": { ...operator, rights: ["read"] },
      [`GET ${LIST}`]: { results: [mine], next: null, unreachable: {} },
      [`GET ${LIST}message/`]: { results: [mine], unreachable: {} },
    }),
  );
  await mount(DelayedPage, `${ADDRESS}&message=m1&of=order.remind`);
  expect(
    await screen.findByText("You don't have permission to change delayed messages of this subject."),
  ).toBeInTheDocument();
  expect(screen.queryByText("Cancel message")).toBeNull();
  expect(screen.queryByText("Cancel by filter…")).toBeNull();
  expect(screen.getByLabelText(/^Select order.remind m1/)).toBeDisabled();
});

test("many are cancelled after they were counted and the subject was typed", async () => {
  const bulk = { subject: "order.remind", matched: 3, too_late: 0, unreachable: {} };
  const { asked } = answer(
    answers({
      [`POST ${LIST}bulk-cancel/`]: (url: URL) =>
        url.searchParams.get("dry_run") === "true"
          ? { ...bulk, dry_run: true, cancelled: 0 }
          : { ...bulk, dry_run: false, cancelled: 2, too_late: 1 },
    }),
  );
  await mount(DelayedPage, `${ADDRESS}&subject=order.remind&filter=order%3D17`);
  await userEvent.click(await screen.findByText("Cancel by filter…"));
  const dialog = await screen.findByRole("dialog");
  await userEvent.click(within(dialog).getByRole("button", { name: "Preview" }));
  expect(await within(dialog).findByText(/3 pending messages of order.remind will be cancelled/)).toBeInTheDocument();
  const apply = within(dialog).getByRole("button", { name: "Cancel messages" });
  expect(apply).toBeDisabled();
  await userEvent.type(within(dialog).getByLabelText("Type order.remind to confirm"), "order.remind");
  await userEvent.click(apply);
  expect(await screen.findByText("2 messages cancelled")).toBeInTheDocument();
  expect(screen.getByText(/1 message was already being delivered/)).toBeInTheDocument();
  const [dry, real] = asked.filter(({ method }) => method === "POST");
  expect(dry?.body).toMatchObject({ subject: "order.remind", match: { order: "17" }, all: false });
  expect(real?.body).toMatchObject({ match: { order: "17" }, expected: 3 });
  expect(real?.url.searchParams.get("dry_run")).toBe("false");
});

test("chosen messages are cancelled one by one; too late for one is no failure of the others", async () => {
  const { asked } = answer(
    answers({
      [`GET ${LIST}`]: { results: [row("m1"), row("m2")], next: null, unreachable: {} },
      [`POST ${LIST}cancel/`]: (url: URL, { message_id }: { message_id: string }) =>
        message_id === "m1"
          ? changed(url.searchParams.get("dry_run") === "true")
          : Response.json(
              { code: "delayed.too_late", title: "", detail: "m2 is delivering: too late" },
              { status: 409 },
            ),
    }),
  );
  await mount(DelayedPage, ADDRESS);
  await userEvent.click(await screen.findByLabelText("Select all rows shown"));
  await userEvent.click(screen.getByText("Cancel 2 messages"));
  const dialog = await screen.findByRole("dialog");
  expect(await within(dialog).findByText("Will be cancelled permanently: 1")).toBeInTheDocument();
  expect(within(dialog).getByText("m2 is delivering: too late")).toBeInTheDocument();
  await userEvent.type(within(dialog).getByLabelText("Type order.remind to confirm"), "order.remind");
  await userEvent.click(within(dialog).getByRole("button", { name: "Cancel 2 messages" }));
  expect(await screen.findByText("Cancelled: 1")).toBeInTheDocument();
  expect(await screen.findByText("Completed: 2 of 2 steps.")).toBeInTheDocument();
  const real = asked.filter(({ method, url }) => method === "POST" && url.searchParams.get("dry_run") === "false");
  expect(real.map(({ url }) => url.pathname)).toEqual([`${LIST}cancel/`, `${LIST}cancel/`]);
  expect(real.map(({ body }) => (body as { message_id: string }).message_id)).toEqual(["m1", "m2"]);
});
