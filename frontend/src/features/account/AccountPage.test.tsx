import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { onProofNeeded } from "@/api/proof";
import AccountPage from "@/features/account/AccountPage";
import { me } from "@/test/me";
import { answer, mount, type Answers } from "@/test/mount";

const AT = "/_allauth/browser/v1/account";
const ada = me({ rights: ["own_account"] });
const session = (id: string, is_this: boolean) => ({
  id,
  is_this,
  started_at: "2026-11-21T10:00:00Z",
  seen_at: "2026-11-21T10:00:00Z",
  expires_at: "2026-11-21T22:00:00Z",
  address: "192.0.2.1",
  user_agent: "curl/8",
});

async function page(answers: Answers = {}, who = ada) {
  const { asked } = answer({
    "GET /api/v1/me/": who,
    "GET /api/v1/me/sessions/": { results: [session("1", true), session("2", false)], next: null },
    [`GET ${AT}/authenticators`]: { status: 200, data: [] },
    ...answers,
  });
  await mount(AccountPage, "/account");
  await screen.findByRole("heading", { level: 1 });
  return asked;
}

test("the proof comes before the secret; the codes are shown once it works", async () => {
  let proofs = 0;
  const forget = onProofNeeded(() => {
    proofs += 1;
    return Promise.resolve(true);
  });
  const asked = await page({
    [`GET ${AT}/authenticators/totp`]: () =>
      Response.json(
        { status: 404, meta: { secret: "JBSWY3DP", totp_url: "otpauth://totp/PyQMQ:ada?secret=JBSWY3DP" } },
        { status: 404 },
      ),
    [`POST ${AT}/authenticators/totp`]: { status: 200, data: { type: "totp", created_at: 1, last_used_at: null } },
    [`GET ${AT}/authenticators/recovery-codes`]: { status: 200, data: { unused_codes: ["aaaa1111", "bbbb2222"] } },
  });
  await userEvent.click(await screen.findByRole("button", { name: "Set up authenticator app" }));
  expect(await screen.findByText("JBSWY3DP")).toBeInTheDocument();
  expect(proofs).toBe(1);
  expect(await screen.findByRole("img", { name: "QR code for the authenticator app" })).toBeInTheDocument();
  await userEvent.type(screen.getByLabelText("Authentication code"), "123 456");
  await userEvent.click(screen.getByRole("button", { name: "Enable" }));
  expect(await screen.findByText("bbbb2222")).toBeInTheDocument();
  expect(asked.find(({ method }) => method === "POST")?.body).toEqual({ code: "123456" });
  await userEvent.click(screen.getByRole("button", { name: "I've saved them" }));
  await waitFor(() => expect(screen.queryByText("bbbb2222")).not.toBeInTheDocument());
  forget();
});

test("whoever would not prove it sees no secret", async () => {
  const forget = onProofNeeded(() => Promise.resolve(false));
  const asked = await page();
  await userEvent.click(await screen.findByRole("button", { name: "Set up authenticator app" }));
  await waitFor(() => expect(screen.getByRole("button", { name: "Set up authenticator app" })).toBeEnabled());
  expect(asked.some(({ url }) => url.pathname.endsWith("/totp"))).toBe(false);
  forget();
});

test("an old proof is renewed, and the change is sent again", async () => {
  let tries = 0;
  const forget = onProofNeeded(() => Promise.resolve(true));
  const made = { status: 200, data: { unused_codes: ["cccc3333"] } };
  await page({
    [`GET ${AT}/authenticators`]: {
      status: 200,
      data: [
        { type: "totp", created_at: 1_760_000_000, last_used_at: null },
        { type: "recovery_codes", created_at: 1, last_used_at: null, unused_code_count: 2, total_code_count: 10 },
      ],
    },
    [`POST ${AT}/authenticators/recovery-codes`]: () => {
      tries += 1;
      if (tries === 2) return made;
      const body = { data: { flows: [{ id: "mfa_reauthenticate" }] }, meta: { is_authenticated: true } };
      return Response.json(body, { status: 401 });
    },
  });
  expect(await screen.findByText("2 of 10 recovery codes left.")).toBeInTheDocument();
  await userEvent.click(screen.getByRole("button", { name: "Generate new recovery codes" }));
  expect(await screen.findByText("cccc3333")).toBeInTheDocument();
  expect(tries).toBe(2);
  forget();
});

test("a demanded second factor is said first", async () => {
  await page({}, { ...ada, lacks_second_factor: true });
  expect(screen.getByText("Two-factor authentication required")).toBeInTheDocument();
  expect(screen.queryByRole("link", { name: "Manage API tokens" })).not.toBeInTheDocument();
});

test("what is wrong with a new password stands beside it", async () => {
  await page({
    [`POST ${AT}/password/change`]: () =>
      Response.json(
        { errors: [{ param: "new_password", code: "password_too_common", message: "This password is too common." }] },
        { status: 400 },
      ),
  });
  await userEvent.type(screen.getByLabelText("Current password"), "seven-green-bottles");
  await userEvent.type(screen.getByLabelText("New password"), "qwertyuiop123");
  expect(screen.getByRole("button", { name: "Change password" })).toBeDisabled();
  await userEvent.type(screen.getByLabelText("Confirm new password"), "qwertyuiop123");
  await userEvent.click(screen.getByRole("button", { name: "Change password" }));
  expect(await screen.findByText("This password is too common.")).toBeInTheDocument();
});

test("who signs in at the provider has no password to change", async () => {
  await page({}, { ...ada, has_password: false });
  expect(screen.getByText(/there is no password to change here/)).toBeInTheDocument();
});

test("all other sessions end, this one stays", async () => {
  const change = { target: "ada", is_change: true, before: { sessions: 2 }, after: { sessions: 1 }, notes: [] };
  const asked = await page({ "DELETE /api/v1/me/sessions/": change });
  expect(await screen.findAllByRole("button", { name: "Sign out" })).toHaveLength(1);
  await userEvent.click(screen.getByRole("button", { name: "Sign out all other sessions" }));
  const dialog = await screen.findByRole("dialog");
  const apply = await within(dialog).findByRole("button", { name: "Sign out" });
  await waitFor(() => expect(apply).toBeEnabled());
  await userEvent.click(apply);
  await waitFor(() => expect(asked.filter(({ method }) => method === "DELETE")).toHaveLength(2));
  const last = asked.findLast(({ method }) => method === "DELETE");
  expect(Object.fromEntries(last?.url.searchParams ?? [])).toEqual({ dry_run: "false", keep_this: "true" });
});
