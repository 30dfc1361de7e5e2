import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test } from "vitest";
import GroupsPage from "@/features/groups/GroupsPage";
import GroupsTable from "@/features/groups/GroupsTable";
import { detail, row } from "@/features/groups/testing";
import { fakeFeeds } from "@/test/feeds";
import { me } from "@/test/me";
import { answer, mount, type Answers } from "@/test/mount";

const LIST = "/api/v1/consumer-groups/";
const place = (broker_group: string, pending: number) => ({
  broker_group,
  position: null,
  new_position: "0",
  skipped: 0,
  repeated: 0,
  in_flight: 0,
  pending,
});
const created = (...broker_groups: object[]) => ({
  target: "orders/audit",
  dry_run: true,
  is_change: true,
  before: null,
  after: {},
  version: "1",
  notes: [],
  broker_groups,
});

beforeEach(() => void fakeFeeds());

async function open(answers: Answers, subject?: string) {
  const { asked } = answer({
    "GET /api/v1/me/": me({ rights: ["read", "change_groups"] }),
    "GET /api/v1/lag/": { at: null, reason: null, results: [row("billing")], next: null },
    ...answers,
  });
  await mount(subject ? () => <GroupsTable subject={subject} /> : GroupsPage, "/groups");
  await userEvent.click(await screen.findByRole("button", { name: "New group" }));
  const dialog = within(await screen.findByRole("dialog"));
  const posts = () => asked.filter(({ method }) => method === "POST");
  return { dialog, posts };
}

test("a group of a subject is created at its start position, after a preview in messages", async () => {
  const { dialog, posts } = await open({ [`POST ${LIST}`]: created(place("g1", 700), place("g2", 334)) }, "orders");
  expect(dialog.queryByLabelText(/Subject/)).not.toBeInTheDocument();
  expect(dialog.getByRole("button", { name: "Preview" })).toBeDisabled();
  await userEvent.type(dialog.getByLabelText(/^Group/), "audit");
  await userEvent.click(dialog.getByLabelText("Earliest"));
  await userEvent.click(dialog.getByRole("button", { name: "Preview" }));
  expect(await dialog.findByText("The group receives 1,034 stored messages first, then new ones.")).toBeVisible();
  await userEvent.click(dialog.getByRole("button", { name: "Create group" }));
  await waitFor(() => expect(posts()).toHaveLength(2));
  expect(posts()[1]).toMatchObject({ body: { subject: "orders", name: "audit", start: "earliest" } });
});

test("without a position its first consumer decides", async () => {
  const { dialog, posts } = await open({ [`POST ${LIST}`]: created() }, "orders");
  await userEvent.type(dialog.getByLabelText(/^Group/), "audit");
  await userEvent.click(dialog.getByLabelText("Decided by its first consumer"));
  await userEvent.click(dialog.getByRole("button", { name: "Preview" }));
  await waitFor(() => expect(posts()).toHaveLength(1));
  expect(posts()[0]?.body).toEqual({ subject: "orders", name: "audit", reason: "" });
});

test("sequences are asked for each broker group of the subject", async () => {
  const { dialog, posts } = await open(
    {
      "GET /api/v1/subjects/orders/": () => Response.json({ name: "orders", broker_groups: ["g1", "g2"] }),
      [`POST ${LIST}`]: created(place("g1", 3)),
    },
    "orders",
  );
  await userEvent.type(dialog.getByLabelText(/^Group/), "audit");
  await userEvent.click(dialog.getByLabelText("Sequences"));
  await userEvent.type(await dialog.findByLabelText("Sequence on g1"), "7");
  expect(dialog.getByLabelText("Sequence on g2")).toBeInTheDocument();
  await userEvent.click(dialog.getByRole("button", { name: "Preview" }));
  await waitFor(() => expect(posts()[0]).toMatchObject({ body: { start: "positions", positions: { g1: "7" } } }));
});

test("on the list of all groups the subject is chosen, and another group's position can be taken", async () => {
  const { dialog, posts } = await open({
    "GET /api/v1/subjects/": { results: [{ name: "orders" }], next: null, previous: null },
    [`GET ${LIST}`]: { results: [detail()], next: null, previous: null },
    [`POST ${LIST}`]: created(place("g1", 3)),
  });
  await userEvent.type(dialog.getByLabelText(/^Subject/), "orders");
  await userEvent.type(dialog.getByLabelText(/^Group/), "audit");
  await userEvent.click(dialog.getByLabelText("Position of another group"));
  await dialog.findByRole("option", { name: "billing" });
  await userEvent.selectOptions(dialog.getAllByRole("combobox").at(-1) as HTMLElement, "billing");
  await userEvent.click(dialog.getByRole("button", { name: "Preview" }));
  await waitFor(() => expect(posts()[0]).toMatchObject({ body: { start: "group", from_group: "billing" } }));
});
