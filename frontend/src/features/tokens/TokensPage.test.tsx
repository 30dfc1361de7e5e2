import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import TokensPage from "@/features/tokens/TokensPage";
import { me } from "@/test/me";
import { answer, mount } from "@/test/mount";

const ada = me({ teams: [], rights: ["read", "own_account"] });
const row = {
  id: "7",
  name: "CI",
  owner: "ada",
  prefix: "qmq_abc",
  scopes: ["read"],
  is_live: true,
  expires_at: "2027-01-01T00:00:00Z",
  created_at: "2026-11-01T00:00:00Z",
  revoked_at: null,
  last_used_at: null,
  last_used_from: "",
};
const known = {
  "GET /api/v1/me/": ada,
  "GET /api/v1/roles/": { roles: [], scopes: [{ name: "read", rights: ["read"] }], rights_of_a_subject: [] },
};
const change = { target: "CI", is_change: true, before: null, after: { name: "CI" }, version: "0", notes: [] };

test("a token is made and shown once with ways to use it", async () => {
  const { asked } = answer({
    ...known,
    "GET /api/v1/tokens/": { results: [], next: null },
    "POST /api/v1/tokens/": (url: URL) =>
      url.searchParams.get("dry_run") === "true"
        ? { ...change, dry_run: true, id: null, token: null }
        : { ...change, dry_run: false, id: "7", token: "qmq_secret" },
  });
  await mount(TokensPage, "/tokens");
  expect(await screen.findByText("No API tokens yet")).toBeInTheDocument();
  await userEvent.click(screen.getByRole("button", { name: "New API token" }));
  const dialog = await screen.findByRole("dialog");
  await userEvent.type(within(dialog).getByLabelText("Name"), "CI");
  await userEvent.click(within(dialog).getByLabelText("Messages"));
  await userEvent.selectOptions(within(dialog).getByLabelText("Expires after"), "30");
  await userEvent.click(within(dialog).getByRole("button", { name: "Create" }));
  expect(await screen.findByText("qmq_secret")).toBeInTheDocument();
  expect(screen.getByText(/curl -H "Authorization: Bearer qmq_secret"/)).toBeInTheDocument();
  const posts = asked.filter(({ method }) => method === "POST");
  expect(posts.map(({ url }) => url.searchParams.get("dry_run"))).toEqual(["false"]);
  expect(posts[0]?.body).toEqual({ name: "CI", scopes: ["read", "messages"], expires_in_days: 30, reason: "" });
  await userEvent.click(screen.getByRole("button", { name: "I've saved it" }));
  await waitFor(() => expect(screen.queryByText("qmq_secret")).not.toBeInTheDocument());
});

test("revoking takes the name typed", async () => {
  const { asked } = answer({
    ...known,
    "GET /api/v1/tokens/": { results: [row], next: null },
    "DELETE /api/v1/tokens/7/": { ...change, dry_run: false },
  });
  await mount(TokensPage, "/tokens");
  await userEvent.click(await screen.findByRole("button", { name: "Revoke" }));
  const dialog = await screen.findByRole("dialog");
  const apply = await within(dialog).findByRole("button", { name: "Revoke" });
  expect(apply).toBeDisabled();
  await userEvent.type(within(dialog).getByLabelText("Type CI to confirm"), "CI");
  await userEvent.click(apply);
  await waitFor(() => expect(asked.at(-2)?.url.searchParams.get("dry_run")).toBe("false"));
});

test("only who may see others' tokens is offered to", async () => {
  answer({ ...known, "GET /api/v1/tokens/": { results: [row], next: null } });
  await mount(TokensPage, "/tokens");
  expect(await screen.findByText("CI")).toBeInTheDocument();
  expect(screen.queryByLabelText("Owner (username)")).not.toBeInTheDocument();
});
