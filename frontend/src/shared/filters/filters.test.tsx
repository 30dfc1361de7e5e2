import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test, vi } from "vitest";
import { oneProperty } from "@/shared/filters/filter";
import { FilterField } from "@/shared/filters/FilterField";
import { teamsFor } from "@/shared/filters/savedFilters";
import { me } from "@/test/me";
import { answer, mount } from "@/test/mount";

const LIST = "/api/v1/subjects/order.paid/saved-filters/";
const row = (id: string, more: object = {}) => ({
  id,
  name: `filter ${id}`,
  filter: `order_id=${id}`,
  team: null,
  is_team_deleted: false,
  by: "ada",
  version: "4",
  created_at: "2026-01-01T00:00:00Z",
  ...more,
});
const changed = (url: URL) => ({
  target: "filter 1",
  dry_run: url.searchParams.get("dry_run") === "true",
  is_change: true,
  before: { name: "filter 1" },
  after: null,
  version: "0",
  notes: [],
  id: "1",
});
const common = (rows: object[], more: object = {}) => ({
  "GET /api/v1/me/": me({ rights: ["read", "read_messages"], teams: ["shop", "web"] }),
  "GET /api/v1/subjects/order.paid/": { name: "order.paid", owner: "shop", broker_groups: [], is_archived: false },
  [`GET ${LIST}`]: { results: rows, next: null, previous: null },
  ...more,
});

async function shown(value = "", onApply: (filter: string) => void = () => undefined) {
  await mount(() => <FilterField subject="order.paid" value={value} onApply={onApply} />);
  await userEvent.click(await screen.findByRole("button", { name: "Saved filters" }));
  return within(await screen.findByRole("dialog"));
}

test("a filter applies with Enter, and not while it is typed", async () => {
  answer(common([]));
  const applied = vi.fn();
  await mount(() => <FilterField subject="" value="" onApply={applied} />);
  await userEvent.type(screen.getByLabelText("Filter"), " a=1 ");
  expect(applied).not.toHaveBeenCalled();
  await userEvent.keyboard("{Enter}");
  expect(applied).toHaveBeenLastCalledWith("a=1");
  await userEvent.click(screen.getByRole("button", { name: "Clear Filter" }));
  expect(applied).toHaveBeenLastCalledWith("");
  expect(screen.queryByRole("button", { name: "Saved filters" })).not.toBeInTheDocument();
});

test("saved filters say who sees them and who saved them; a chosen one applies", async () => {
  const { asked } = answer(
    common([row("1"), row("2", { team: "shop", by: "bob" }), row("3", { team: "old", is_team_deleted: true })]),
  );
  const applied = vi.fn();
  await mount(() => <FilterField subject="order.paid" value="" onApply={applied} />);
  const button = await screen.findByRole("button", { name: "Saved filters" });
  expect(asked.some(({ url }) => url.pathname === LIST)).toBe(false);
  await userEvent.click(button);
  const dialog = within(await screen.findByRole("dialog"));
  expect(await dialog.findByText("Only you")).toBeInTheDocument();
  expect(dialog.getByText("shop")).toBeInTheDocument();
  expect(dialog.getByText("old (deleted team)")).toBeInTheDocument();
  expect(dialog.getByText(/saved by bob/)).toBeInTheDocument();
  await userEvent.click(dialog.getByRole("button", { name: "filter 2" }));
  expect(applied).toHaveBeenLastCalledWith("order_id=2");
  expect(screen.getByLabelText("Filter")).toHaveValue("order_id=2");
});

test("the current filter is saved for the team of the subject, which is offered first", async () => {
  const { asked } = answer(common([], { [`POST ${LIST}`]: changed }));
  const dialog = await shown("body.total > 5");
  expect(await dialog.findByText("No saved filters")).toBeInTheDocument();
  await userEvent.click(dialog.getByRole("button", { name: "Save this filter" }));
  const form = within(await screen.findByRole("dialog", { name: "Save a filter of order.paid" }));
  expect(form.getByRole("button", { name: "Save" })).toBeDisabled();
  const teams = within(form.getByLabelText("Visible to")).getAllByRole("option");
  expect(teams.map(({ textContent }) => textContent)).toEqual([
    "Only you",
    "Members of team shop",
    "Members of team web",
  ]);
  await userEvent.type(form.getByLabelText("Name"), "large");
  await userEvent.selectOptions(form.getByLabelText("Visible to"), "shop");
  await userEvent.click(form.getByRole("button", { name: "Save" }));
  await waitFor(() => expect(asked.filter(({ method }) => method === "POST")).toHaveLength(1));
  expect(asked.find(({ method }) => method === "POST")?.body).toMatchObject({
    name: "large",
    filter: "body.total > 5",
    team: "shop",
  });
});

test("a filter that is saved already says under which name", async () => {
  answer(common([row("1")]));
  const dialog = await shown("order_id=1");
  expect(await dialog.findByText("Saved as “filter 1”")).toBeInTheDocument();
  expect(dialog.queryByRole("button", { name: "Save this filter" })).not.toBeInTheDocument();
});

test("a filter is changed in the version that was read; one of a deleted team gets who can use it", async () => {
  const { asked } = answer(
    common([row("1", { team: "old", is_team_deleted: true })], { [`PATCH ${LIST}1/`]: changed }),
  );
  const dialog = await shown();
  await userEvent.click(await dialog.findByRole("button", { name: "Edit filter filter 1" }));
  const form = within(await screen.findByRole("dialog", { name: "Edit filter filter 1" }));
  expect(form.getByText(/Team old was deleted/)).toBeInTheDocument();
  await userEvent.selectOptions(form.getByLabelText("Visible to"), "web");
  await userEvent.click(form.getByRole("button", { name: "Save" }));
  await waitFor(() => expect(asked.find(({ method }) => method === "PATCH")).toBeDefined());
  const sent = asked.find(({ method }) => method === "PATCH");
  expect(sent?.body).toMatchObject({ name: "filter 1", filter: "order_id=1", team: "web" });
  expect(sent?.etag).toBe('"v4"');
});

test("a filter is deleted after a preview, which says who loses it", async () => {
  const { asked } = answer(common([row("1", { team: "shop" })], { [`DELETE ${LIST}1/`]: changed }));
  const dialog = await shown();
  await userEvent.click(await dialog.findByRole("button", { name: "Delete filter filter 1" }));
  const preview = within(await screen.findByRole("dialog", { name: "Delete filter filter 1" }));
  expect(await preview.findByText("Members of team shop can no longer use this filter.")).toBeInTheDocument();
  await userEvent.click(preview.getByRole("button", { name: "Delete" }));
  await waitFor(() =>
    expect(asked.filter(({ method }) => method === "DELETE").map(({ url }) => url.searchParams.get("dry_run"))).toEqual(
      ["true", "false"],
    ),
  );
});

test.each([
  ["a=1", "a=1"],
  [" a=1 ", "a=1"],
  ["a=1 b=2", ""],
  ["body.a == 1", ""],
  ['a="x y"', ""],
  ["Emma", ""],
])("%s as a single property: %j", (filter, property) => {
  expect(oneProperty(filter)).toBe(property);
});

test("an administrator shares with the owner, whatever their teams", () => {
  expect(teamsFor({ role: "admin", teams: [] }, "shop")).toEqual(["shop"]);
  expect(teamsFor({ role: "operator", teams: ["web"] }, "shop")).toEqual(["web"]);
});
