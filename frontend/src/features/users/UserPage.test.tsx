import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import UserPage from "@/features/users/UserPage";
import { me } from "@/test/me";
import { answer, mount } from "@/test/mount";

const admin = me({ username: "root", role: "admin", teams: [], rights: ["read", "change_accounts"] });
const ada = {
  id: "2",
  username: "ada",
  email: "ada@example.org",
  first_name: "Ada",
  last_name: "",
  role: "operator",
  teams: ["shop"],
  is_active: true,
  has_password: true,
  sessions: 2,
  tokens: 1,
  last_login: null,
  created_at: "2026-11-01T00:00:00Z",
  version: "3",
};
const change = {
  target: "ada",
  is_change: true,
  before: { is_active: true },
  after: { is_active: false },
  version: "4",
};

function known() {
  return answer({
    "GET /api/v1/me/": admin,
    "GET /api/v1/teams/": { results: [{ name: "shop" }, { name: "mail" }], next: null },
    "GET /api/v1/users/2/": () => Response.json(ada, { headers: { ETag: '"v3"' } }),
    "PATCH /api/v1/users/2/": (url: URL) => ({
      ...change,
      dry_run: url.searchParams.get("dry_run") === "true",
      notes: [{ code: "shut_out", values: { sessions: 2, tokens: 1 }, text: "" }],
    }),
  });
}

test("disabling shows what ends, and takes the name typed", async () => {
  const { asked } = known();
  await mount(UserPage, "/users/2", "/users/$id");
  await userEvent.click(await screen.findByRole("button", { name: "Disable" }));
  const dialog = await screen.findByRole("dialog");
  expect(await within(dialog).findByText("Sessions ended: 2. Tokens revoked: 1.")).toBeInTheDocument();
  const apply = within(dialog).getByRole("button", { name: "Disable" });
  expect(apply).toBeDisabled();
  await userEvent.type(within(dialog).getByLabelText("Type ada to confirm"), "ada");
  await userEvent.click(apply);
  await waitFor(() => expect(asked.filter(({ method }) => method === "PATCH")).toHaveLength(2));
  expect(asked.findLast(({ method }) => method === "PATCH")?.body).toEqual({ is_active: false, reason: "" });
});

test("a change sends every field it shows, and the preview comes first", async () => {
  const { asked } = known();
  await mount(UserPage, "/users/2", "/users/$id");
  await userEvent.click(await screen.findByRole("button", { name: "Edit" }));
  const dialog = await screen.findByRole("dialog");
  expect(within(dialog).getByRole("button", { name: "Preview" })).toBeDisabled();
  await userEvent.selectOptions(within(dialog).getByLabelText("Role"), "viewer");
  await userEvent.click(within(dialog).getByRole("button", { name: "Preview" }));
  expect(await within(dialog).findByText("Preview of changes")).toBeInTheDocument();
  const sent = asked.filter(({ method }) => method === "PATCH");
  expect(sent).toHaveLength(1);
  expect(sent[0]?.url.searchParams.get("dry_run")).toBe("true");
  expect(sent[0]?.body).toMatchObject({ role: "viewer", teams: ["shop"], email: "ada@example.org" });
});

test("unlocking shows that the user is locked, and ends it", async () => {
  const { asked } = answer({
    "GET /api/v1/me/": admin,
    "GET /api/v1/users/2/": () => Response.json(ada, { headers: { ETag: '"v3"' } }),
    "POST /api/v1/users/2/unlock/": (url: URL) => ({
      ...change,
      before: { is_locked: true },
      after: { is_locked: false },
      notes: [],
      dry_run: url.searchParams.get("dry_run") === "true",
    }),
  });
  await mount(UserPage, "/users/2", "/users/$id");
  await userEvent.click(await screen.findByRole("button", { name: "Unlock sign-in" }));
  const dialog = await screen.findByRole("dialog");
  expect(await within(dialog).findByText("Locked")).toBeInTheDocument();
  await userEvent.click(within(dialog).getByRole("button", { name: "Unlock" }));
  await waitFor(() => expect(asked.filter(({ method }) => method === "POST")).toHaveLength(2));
  expect(await screen.findByText("ada unlocked")).toBeInTheDocument();
});
