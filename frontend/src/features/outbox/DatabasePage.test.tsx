import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import DatabasePage from "@/features/outbox/DatabasePage";
import { database, row } from "@/features/outbox/samples.testing";
import { me } from "@/test/me";
import { answer, mount, one } from "@/test/mount";

const WHERE = "/api/v1/outbox/databases/7/";
const rows = (...results: object[]) => ({ results, next: null });
const changed = (more: object) => ({
  dry_run: true,
  matched: 2,
  is_matched_exact: true,
  done: 2,
  left: 0,
  not_found: 0,
  notes: [],
  ...more,
});
const answers = (more: object = {}, found = database()) => ({
  "GET /api/v1/me/": me({ teams: [] }),
  [`GET ${WHERE}`]: () => Response.json(found, { headers: { ETag: '"v4"' } }),
  [`GET ${WHERE}rows/`]: rows(row({}), row({ id: "42", message_id: "m-42" })),
  ...more,
});
const open = (search = "") => mount(DatabasePage, `/outbox/7${search}`, "/outbox/$database");

test("a database that does not answer leaves the rest of the page, and its rows can be tried again", async () => {
  let isAway = true;
  answer(
    answers({
      [`GET ${WHERE}rows/`]: () =>
        isAway
          ? Response.json(
              { code: "database.timeout", title: "Service Unavailable", detail: "Database shop can't be used" },
              { status: 503 },
            )
          : rows(row({})),
    }),
  );
  await open();
  expect(await screen.findByText("Database shop can't be used")).toBeInTheDocument();
  expect(screen.getByText("12m 34s")).toBeInTheDocument();
  isAway = false;
  await userEvent.click(screen.getByRole("button", { name: "Try again" }));
  expect(await screen.findByText("m-41")).toBeInTheDocument();
});

test("a view reads the rows of its statuses", async () => {
  const { asked } = answer(answers());
  const page = await open();
  await screen.findByText("m-41");
  await userEvent.click(screen.getByRole("radio", { name: "Failed" }));
  await waitFor(() => expect(page.address()).toBe("/outbox/7?show=failed"));
  const read = () => asked.filter(({ url }) => url.pathname === `${WHERE}rows/`);
  await waitFor(() => expect(read()).toHaveLength(2));
  expect(read().map(({ url }) => url.searchParams.getAll("status"))).toEqual([
    ["refused", "invalid", "failed", "pending"],
    ["refused", "invalid"],
  ]);
});

test("selected rows are resent by their IDs, after their count was seen", async () => {
  const { asked } = answer(answers({ [`POST ${WHERE}resend/`]: changed({ not_found: 1 }) }));
  const page = await open();
  await screen.findByText("m-41");
  for (const id of ["41", "42"]) await userEvent.click(screen.getByRole("checkbox", { name: `Select ${id}` }));
  await userEvent.click(one(page, "[data-action=resend-selected]"));
  const dialog = await screen.findByRole("dialog");
  expect(await within(dialog).findByText(/^2 rows become pending/)).toBeInTheDocument();
  expect(within(dialog).getByText(/^1 selected row is left alone/)).toBeInTheDocument();
  await userEvent.type(within(dialog).getByLabelText(/^Reason/), "limit raised");
  await userEvent.click(within(dialog).getByRole("button", { name: "Resend" }));
  expect(await screen.findByText("2 rows are pending again.")).toBeInTheDocument();
  expect(screen.queryByText("2 selected")).toBeNull();
  const sent = asked.filter(({ method }) => method === "POST");
  expect(sent.map(({ url, etag, body }) => [url.searchParams.get("dry_run"), etag, body])).toEqual([
    ["true", '"v4"', { ids: ["41", "42"], reason: "" }],
    ["false", '"v4"', { ids: ["41", "42"], reason: "limit raised" }],
  ]);
});

test("all rows of a status are discarded in several requests, each with the count that was seen", async () => {
  const answered = [changed({ matched: 25_000, done: 10_000, left: 15_000 })];
  const { asked } = answer(
    answers({
      [`POST ${WHERE}discard/`]: (url: URL) => {
        if (url.searchParams.get("dry_run") === "true") return answered[0];
        const before = answered.length - 1;
        const left = [15_000, 5_000, 0][before];
        answered.push(changed({ dry_run: false, matched: 25_000, done: before < 2 ? 10_000 : 5_000, left }));
        return answered.at(-1);
      },
    }),
  );
  const page = await open("?show=failed");
  await screen.findByText("m-41");
  await userEvent.click(one(page, "[data-action=discard-all]"));
  const dialog = await screen.findByRole("dialog");
  await userEvent.selectOptions(within(dialog).getByLabelText("Status"), "invalid");
  await userEvent.click(within(dialog).getByRole("button", { name: "Preview" }));
  expect(await within(dialog).findByText("25,000 rows are deleted.")).toBeInTheDocument();
  expect(within(dialog).getByText(/can't be undone/)).toBeInTheDocument();
  const button = within(dialog).getByRole("button", { name: "Discard" });
  expect(button).toBeDisabled();
  await userEvent.type(within(dialog).getByLabelText("Type shop to confirm"), "shop");
  await userEvent.click(button);
  expect(await screen.findByText("25,000 rows deleted.")).toBeInTheDocument();
  const sent = asked.filter(({ method, url }) => method === "POST" && url.searchParams.get("dry_run") === "false");
  expect(sent.map(({ body }) => body)).toEqual(Array(3).fill({ status: "invalid", expected: 25_000, reason: "" }));
});

test("a pending row that never failed can't be chosen", async () => {
  const pending = row({ id: "43", status: "pending", failed_attempts: 0, message_id: "m-43" });
  answer(
    answers({
      [`GET ${WHERE}rows/`]: rows(pending, row({ id: "44", status: "pending", failed_attempts: 1 })),
      [`GET ${WHERE}rows/43/`]: pending,
    }),
  );
  const page = await open("?row=43");
  await screen.findByText("m-43", { selector: "td *" });
  expect(screen.getByRole("checkbox", { name: "Select 43", hidden: true })).toBeDisabled();
  expect(screen.getByRole("checkbox", { name: "Select 44", hidden: true })).toBeEnabled();
  await screen.findByText(/can't be resent or discarded/);
  expect(page.baseElement.querySelector('[data-outbox-row="43"] [data-action]')).toBeNull();
});

test("a viewer sees rows without hidden content and without actions", async () => {
  const hidden = row({ masked: true, properties: null, last_error: null });
  answer(
    answers(
      { [`GET ${WHERE}rows/`]: rows(hidden), [`GET ${WHERE}rows/41/`]: hidden },
      database({ may_resend: false, may_discard: false, host: null, database: null, user: null }),
    ),
  );
  const page = await open();
  expect(await screen.findByText("hidden")).toBeInTheDocument();
  expect(page.container.querySelector("[data-action], input[type=checkbox]")).toBeNull();
  await userEvent.click(screen.getByRole("button", { name: "Open row 41" }));
  expect(await screen.findByText("You don't have permission to read this message")).toBeInTheDocument();
});

test("a row shows its message, and what is wrong with one that is none", async () => {
  const invalid = row({
    id: "45",
    status: "invalid",
    message_id: null,
    subject: null,
    properties: null,
    last_error: null,
    problem: "the content has no subject",
    content: "{}",
  });
  answer(answers({ [`GET ${WHERE}rows/`]: rows(invalid), [`GET ${WHERE}rows/45/`]: invalid }));
  const page = await open("?row=45");
  const drawer = await waitFor(() => one(page, "[data-outbox-row]"));
  expect(within(drawer).getByText("The content is not a valid message")).toBeInTheDocument();
  expect(within(drawer).getByText("the content has no subject")).toBeInTheDocument();
  expect(within(drawer).getByText("{}")).toBeInTheDocument();
});

test("a cleanup of markers that fails is shown, with its text for administrators", async () => {
  const failing = {
    marker_table: "qmq_processed",
    marker_cleanup_at: "2026-11-21T10:00:00Z",
    marker_error_code: "database.access_denied",
  };
  answer(answers({}, database({ ...failing, marker_error: "markers in qmq_processed: DELETE command denied" })));
  const page = await open();
  expect(await screen.findByText("markers in qmq_processed: DELETE command denied")).toBeInTheDocument();
  expect(screen.getByText("Old markers can't be deleted")).toBeInTheDocument();
  expect(one(page, "[data-marker-error]")).toHaveTextContent("database.access_denied");
  page.unmount();
  answer(answers({}, database(failing)));
  await open();
  expect(await screen.findByText("it refuses the user, or the user lacks a right")).toBeInTheDocument();
});

test("the settings say how long markers are kept, if any are deleted", async () => {
  answer(answers({}, database({ marker_table: "qmq_processed", marker_days: 30 })));
  await open();
  const days = await screen.findByText("Keep markers (days)");
  expect(days.nextElementSibling).toHaveTextContent("30");
  expect(screen.getByText("qmq_processed")).toBeInTheDocument();
});
