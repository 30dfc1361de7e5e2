import { fireEvent, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import SettingsTab from "@/features/subjects/SettingsTab";
import { me } from "@/test/me";
import { answer, mount } from "@/test/mount";

const subject = {
  name: "order.paid",
  description: "",
  owner: null,
  tags: [],
  messages_per_second: null,
  bytes_per_second: null,
  retention_hours: 72,
  allowed_groups: null,
  is_archived: false,
  may_change: true,
  updated_at: "2026-11-21T10:00:00Z",
};
const olga = me({ username: "olga", rights: ["read", "change_subjects"] });
const page = () => <SettingsTab subject="order.paid" />;
const answers = (may: boolean) => ({
  "GET /api/v1/me/": olga,
  "GET /api/v1/teams/": { results: [], next: null, previous: null },
  "GET /api/v1/subjects/order.paid/": () =>
    Response.json({ ...subject, may_change: may }, { headers: { ETag: '"v7"' } }),
  "PATCH /api/v1/subjects/order.paid/": {
    target: "order.paid",
    dry_run: true,
    is_change: true,
    before: { retention_hours: 72 },
    after: { retention_hours: 24 },
    version: "8",
    notes: [],
  },
});

test("only what differs is previewed first, then changed", async () => {
  const { asked } = answer(answers(true));
  await mount(page, "/subjects/order.paid");
  fireEvent.change(await screen.findByLabelText("Retention"), { target: { value: "1 d" } });
  fireEvent.click(screen.getByText("Preview"));
  fireEvent.click(await screen.findByText("Save"));
  await waitFor(() => expect(asked.filter(({ method }) => method === "PATCH")).toHaveLength(2));
  const [preview, change] = asked.filter(({ method }) => method === "PATCH");
  expect(preview?.url.searchParams.get("dry_run")).toBe("true");
  expect(change?.url.searchParams.get("dry_run")).toBe("false");
  expect(change?.body).toEqual({ retention_hours: 24, reason: "" });
});

test("archiving waits for the name to be typed", async () => {
  const { asked } = answer({
    ...answers(true),
    "POST /api/v1/subjects/order.paid/archive/": {
      target: "order.paid",
      dry_run: true,
      is_change: true,
      before: { archived: false },
      after: { archived: true },
      version: "8",
      notes: [],
    },
  });
  await mount(page, "/subjects/order.paid");
  fireEvent.click(await screen.findByRole("button", { name: "Archive" }));
  const typed = await screen.findByLabelText("Type order.paid to confirm");
  const apply = document.querySelector<HTMLButtonElement>("[data-action=apply]");
  expect(apply).toBeDisabled();
  fireEvent.change(typed, { target: { value: "order.paid" } });
  expect(apply).toBeEnabled();
  expect(asked.filter(({ method }) => method === "POST").map(({ url }) => url.search)).toEqual(["?dry_run=true"]);
});

test("whoever may not change it can look", async () => {
  answer(answers(false));
  await mount(page, "/subjects/order.paid");
  expect(await screen.findByLabelText("Retention")).toBeDisabled();
  expect(screen.getByRole("button", { name: "Archive" })).toBeDisabled();
  expect(screen.queryByText("Preview")).not.toBeInTheDocument();
});

test("only an archived subject can be deleted, after its name was typed", async () => {
  const change = {
    target: "order.paid",
    dry_run: true,
    is_change: true,
    before: {},
    after: null,
    version: "0",
    notes: [],
  };
  const archived = { ...subject, is_archived: true, archived_at: "2026-11-21T10:00:00Z" };
  const { asked } = answer({
    ...answers(true),
    "GET /api/v1/subjects/order.paid/": () => Response.json(archived, { headers: { ETag: '"v7"' } }),
    "DELETE /api/v1/subjects/order.paid/": change,
  });
  await mount(page, "/subjects/order.paid");
  fireEvent.click(await screen.findByRole("button", { name: "Delete" }));
  const typed = await screen.findByLabelText("Type order.paid to confirm");
  const apply = document.querySelector<HTMLButtonElement>("[data-action=apply]");
  expect(apply).toBeDisabled();
  fireEvent.change(typed, { target: { value: "order.paid" } });
  fireEvent.click(apply as HTMLButtonElement);
  await waitFor(() => expect(asked.filter(({ method }) => method === "DELETE")).toHaveLength(2));
  expect(asked.filter(({ method }) => method === "DELETE").map(({ url }) => url.search)).toEqual([
    "?dry_run=true",
    "?dry_run=false",
  ]);
});

test("a subject that is not archived can't be deleted", async () => {
  answer(answers(true));
  await mount(page, "/subjects/order.paid");
  expect(await screen.findByRole("button", { name: "Delete" })).toBeDisabled();
});

const ada = me({
  username: "ada",
  role: "admin",
  rights: ["read", "read_messages", "change_subjects", "change_masking"],
});
const rule = { properties: ["card"], json_paths: [], roles: ["admin"], how: "hide" };

test("an administrator adds a masking rule after a preview of the newest message", async () => {
  const message = {
    broker_group: "g1",
    sequence: "7",
    message_id: "m7",
    stored_at: null,
    created_at: null,
    tags: [],
    properties: { card: "••••", data: "text" },
    size: 20,
    masked: false,
    masked_values: [{ property: "card", rule: "card", how: "hide", why: null }],
    withheld: null,
  };
  const { asked } = answer({
    ...answers(true),
    "GET /api/v1/me/": ada,
    "GET /api/v1/subjects/order.paid/masking-preview/": { message, unreachable: {} },
    "PATCH /api/v1/subjects/order.paid/": {
      target: "order.paid",
      dry_run: true,
      is_change: true,
      before: { masking: [] },
      after: { masking: [rule] },
      version: "8",
      notes: [],
    },
  });
  await mount(page, "/subjects/order.paid");
  fireEvent.click(await screen.findByText("Add rule"));
  expect(document.querySelector("[data-action=save-masking]")).toBeDisabled();
  const properties = screen.getByLabelText("Rule 1: Properties");
  await userEvent.type(properties, "card{Enter}");
  fireEvent.click(screen.getByText("Preview newest message"));
  expect(await screen.findByText("What Operator sees of the newest message:")).toBeInTheDocument();
  expect(await screen.findByText("card in card: hidden")).toBeInTheDocument();
  const [preview] = asked.filter(({ url }) => url.pathname.endsWith("masking-preview/"));
  expect(preview?.url.searchParams.get("role")).toBe("operator");
  expect(JSON.parse(preview?.url.searchParams.get("masking") ?? "")).toEqual([rule]);
  fireEvent.click(document.querySelector("[data-action=save-masking]") as HTMLButtonElement);
  expect(await screen.findByText("card: hidden, visible to Administrator")).toBeInTheDocument();
  fireEvent.click(await screen.findByText("Save"));
  await waitFor(() => expect(asked.filter(({ method }) => method === "PATCH")).toHaveLength(2));
  expect(asked.filter(({ method }) => method === "PATCH")[1]?.body).toEqual({ masking: [rule], reason: "" });
});

test("an operator sees the masking rules and can't change them", async () => {
  answer({
    ...answers(true),
    "GET /api/v1/subjects/order.paid/": () =>
      Response.json({ ...subject, masking: [rule] }, { headers: { ETag: '"v7"' } }),
  });
  await mount(page, "/subjects/order.paid");
  expect(await screen.findByLabelText("Rule 1: Properties")).toBeDisabled();
  expect(screen.queryByText("Add rule")).not.toBeInTheDocument();
  expect(screen.queryByText("Preview newest message")).not.toBeInTheDocument();
});
