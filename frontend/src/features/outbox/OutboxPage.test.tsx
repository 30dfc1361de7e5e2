import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import OutboxPage from "@/features/outbox/OutboxPage";
import { database, unmeasured } from "@/features/outbox/samples.testing";
import { me } from "@/test/me";
import { answer, mount, one } from "@/test/mount";

const ADMIN = { role: "admin", rights: ["read", "send", "change_groups", "change_cluster"] } as const;
const list = (...results: object[]) => ({ results, next: null, previous: null });
const answers = (who: object, ...rows: object[]) => ({
  "GET /api/v1/me/": me({ teams: [], ...who }),
  "GET /api/v1/teams/": list(),
  "GET /api/v1/outbox/databases/": list(...rows),
});

test("what is unknown is a dash with the reason, and never 0", async () => {
  answer(
    answers(
      {},
      unmeasured({ id: "1", name: "a", is_enabled: false, unknown: "disabled", measured_at: null }),
      unmeasured({ id: "2", name: "b", unknown: "failed", error_code: "database.unreachable" }),
      unmeasured({ id: "3", name: "c", unknown: "outdated" }),
    ),
  );
  const page = await mount(OutboxPage, "/outbox");
  await screen.findByRole("link", { name: "a" });
  const labels = (id: string) =>
    ["pending", "oldest", "failed", "rate"].map(
      (column) =>
        page.container
          .querySelector(`[data-row="${id}"] [data-cell="${column}"] .unknown`)
          ?.getAttribute("aria-label") ?? "",
    );
  expect(labels("1")).toEqual(Array(4).fill("unknown: The database is disabled."));
  expect(labels("2")).toEqual(Array(4).fill("unknown: The database can't be used: it can't be reached."));
  expect(new Set(labels("3"))).toEqual(
    new Set([expect.stringMatching(/^unknown: Not measured since 2026-11-21 .*is late, or does not run\.$/)]),
  );
});

test("numbers have their limit, their age and their way to the rows", async () => {
  answer(
    answers(
      {},
      database({ pending: 100_000, is_pending_exact: false, failed: 3 }),
      database({
        id: "8",
        name: "idle",
        pending: 0,
        oldest_seconds: 0,
        failed: 0,
        rows_per_second: null,
        leader: "java",
      }),
    ),
  );
  const page = await mount(OutboxPage, "/outbox");
  await screen.findByRole("link", { name: "shop" });
  const cell = (id: string, column: string) => one(page, `[data-row="${id}"] [data-cell="${column}"]`);
  expect(cell("7", "pending")).toHaveTextContent("> 100,000");
  expect(cell("7", "pending").querySelector("[data-measured]")).toHaveAttribute(
    "data-hint",
    expect.stringContaining("Measured 2026-11-21"),
  );
  expect(cell("7", "oldest")).toHaveTextContent("12m 34s");
  expect(within(cell("7", "failed")).getByRole("link")).toHaveAttribute("href", "/outbox/7?show=failed");
  expect(cell("8", "pending")).toHaveTextContent("0");
  expect(cell("8", "oldest")).toHaveTextContent("none");
  expect(within(cell("8", "rate")).getByRole("img")).toHaveAccessibleName(
    "unknown: Another relay sends the rows: java",
  );
});

test("an error has its text for administrators and its meaning for others", async () => {
  const failed = {
    unknown: "failed",
    error_code: "database.access_denied",
    error_since: "2026-11-21T10:00:00Z",
  } as const;
  answer(
    answers(
      {},
      unmeasured({ ...failed, error: "db.example:5432: password authentication failed" }),
      unmeasured({ ...failed, id: "8", name: "other", host: null, database: null, error: null }),
    ),
  );
  await mount(OutboxPage, "/outbox");
  expect(await screen.findByText("db.example:5432: password authentication failed")).toBeInTheDocument();
  expect(screen.getByText("it refuses the user, or the user lacks a right")).toBeInTheDocument();
  expect(screen.getByText("shown to administrators")).toBeInTheDocument();
});

test("without a database the page says what it shows, and who can register the first", async () => {
  answer(answers({}));
  await mount(OutboxPage, "/outbox");
  expect(await screen.findByText(/^This page shows databases with an outbox/)).toBeInTheDocument();
  expect(screen.getByText(/^Then ask an administrator/)).toBeInTheDocument();
  expect(screen.queryByRole("button", { name: "Register database" })).toBeNull();
});

test("an administrator registers a database, which was tested by the preview", async () => {
  const { asked } = answer({
    ...answers(ADMIN),
    "POST /api/v1/outbox/databases/": {
      target: "9",
      dry_run: true,
      is_change: true,
      before: null,
      after: { kind: "mysql", name: "cart", password: "1a2b3c4d", tls: "off" },
      version: "1",
      notes: [],
    },
  });
  await mount(OutboxPage, "/outbox");
  await userEvent.click(await screen.findByRole("button", { name: "Register database" }));
  const dialog = await screen.findByRole("dialog");
  const field = (name: RegExp) => within(dialog).getByLabelText(name);
  await userEvent.type(field(/^Name/), "cart");
  await userEvent.selectOptions(field(/^Type/), "mysql");
  await userEvent.type(field(/^Host/), "db.example");
  await userEvent.type(field(/^Database/), "cart");
  await userEvent.type(field(/^User/), "relay");
  await userEvent.type(field(/^Password/), "secret");
  expect(within(dialog).getByText(/GRANT SELECT, UPDATE, DELETE ON `cart`.`qmq_msg_queue`/)).toBeInTheDocument();
  await userEvent.click(within(dialog).getByRole("button", { name: "Preview" }));
  expect(await within(dialog).findByText(/^The connection was tested/)).toBeInTheDocument();
  expect(within(dialog).getByRole("row", { name: "Password none set, fingerprint 1a2b3c4d" })).toBeInTheDocument();
  await userEvent.click(within(dialog).getByRole("button", { name: "Register database" }));
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  const sent = asked.filter(({ method }) => method === "POST");
  expect(sent.map(({ url }) => url.searchParams.get("dry_run"))).toEqual(["true", "false"]);
  expect(sent[1]?.body).toMatchObject({ kind: "mysql", host: "db.example", port: 3306, password: "secret" });
});

test("a refused registration names the missing rights once, and the statement that grants them", async () => {
  answer({
    ...answers(ADMIN),
    "POST /api/v1/outbox/databases/": () =>
      Response.json(
        {
          code: "database.access_denied",
          title: "Bad Request",
          detail: `user 'relay' lacks rights: DELETE on "qmq_msg_queue". Correct it.`,
          fields: { user: 'GRANT DELETE ON "qmq_msg_queue" TO "relay";' },
        },
        { status: 400 },
      ),
  });
  await mount(OutboxPage, "/outbox");
  await userEvent.click(await screen.findByRole("button", { name: "Register database" }));
  const dialog = await screen.findByRole("dialog");
  await userEvent.type(within(dialog).getByLabelText(/^Name/), "cart");
  await userEvent.type(within(dialog).getByLabelText(/^Host/), "db.example");
  await userEvent.type(within(dialog).getByLabelText(/^Database/), "cart");
  await userEvent.type(within(dialog).getByLabelText(/^Table of markers/), "sales.marks");
  expect(within(dialog).getByText(/GRANT SELECT, DELETE ON "sales"."marks"/)).toBeInTheDocument();
  await userEvent.click(within(dialog).getByRole("button", { name: "Preview" }));
  expect(await within(dialog).findAllByText(/DELETE on "qmq_msg_queue"/)).toHaveLength(1);
  expect(within(dialog).getByText(/GRANT DELETE ON "qmq_msg_queue" TO "relay";/)).toBeInTheDocument();
});

test("deleting names what becomes of the rows", async () => {
  const { asked } = answer({
    ...answers(ADMIN, database({ pending: 12 })),
    "DELETE /api/v1/outbox/databases/7/": {
      target: "7",
      dry_run: true,
      is_change: true,
      before: { name: "shop", host: "db.example" },
      after: null,
      version: "5",
      notes: [],
    },
  });
  await mount(OutboxPage, "/outbox");
  await userEvent.click(await screen.findByRole("button", { name: "Actions for shop" }));
  await userEvent.click(await screen.findByRole("menuitem", { name: "Delete", hidden: true }));
  const dialog = await screen.findByRole("dialog");
  expect(await within(dialog).findByText(/12 pending rows are not sent/)).toBeInTheDocument();
  const button = within(dialog).getByRole("button", { name: "Delete" });
  expect(button).toBeDisabled();
  await userEvent.type(within(dialog).getByLabelText("Type shop to confirm"), "shop");
  await userEvent.click(button);
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  expect(asked.filter(({ method }) => method === "DELETE").map(({ etag }) => etag)).toEqual(['"v4"', '"v4"']);
});

test("a test of the connection lists missing rights with the statement that grants them", async () => {
  answer({
    ...answers(ADMIN, database()),
    "POST /api/v1/outbox/databases/7/test/": {
      target: "7",
      is_usable: false,
      code: "database.access_denied",
      detail: "user 'relay' lacks rights: DELETE on \"qmq_msg_queue\"",
      missing_rights: [{ table: '"qmq_msg_queue"', right: "DELETE" }],
    },
  });
  await mount(OutboxPage, "/outbox");
  await userEvent.click(await screen.findByRole("button", { name: "Actions for shop" }));
  await userEvent.click(await screen.findByRole("menuitem", { name: "Test connection", hidden: true }));
  expect(await screen.findByText('DELETE on "qmq_msg_queue"')).toBeInTheDocument();
  expect(screen.getByText('GRANT DELETE ON "qmq_msg_queue" TO "relay";')).toBeInTheDocument();
});
