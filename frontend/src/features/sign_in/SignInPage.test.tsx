import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import SignInPage from "@/features/sign_in/SignInPage";
import { answer, mount, type Answers } from "@/test/mount";

const AT = "/_allauth/browser/v1";
const config = (providers: unknown[] = []) => ({
  [`GET ${AT}/config`]: { status: 200, data: { socialaccount: { providers } } },
});
const pending = () =>
  Response.json(
    {
      data: { flows: [{ id: "login" }, { id: "mfa_authenticate", is_pending: true }] },
      meta: { is_authenticated: false },
    },
    { status: 401 },
  );
const refused =
  (code: string, message = "said in English") =>
  () =>
    Response.json({ status: 400, errors: [{ code, message }] }, { status: 400 });
const done = { status: 200, data: {}, meta: { is_authenticated: true } };

async function page(answers: Answers, address = "/sign-in") {
  const { asked } = answer({ ...config(), ...answers });
  const mounted = await mount(SignInPage, address);
  return { asked, ...mounted };
}

async function give(login = "ada", password = "seven-green-bottles") {
  await userEvent.type(await screen.findByLabelText("Username or email address"), login);
  await userEvent.type(screen.getByLabelText("Password"), password);
  await waitFor(() => expect(screen.getByRole("button", { name: "Sign in" })).toBeEnabled());
  await userEvent.click(screen.getByRole("button", { name: "Sign in" }));
}

test("says what this is", async () => {
  await page({});
  expect(await screen.findByText(/^A message queue with delayed delivery/)).toBeInTheDocument();
});

test("with the password, then on to where one wanted to go", async () => {
  const { asked, address } = await page({ [`POST ${AT}/auth/login`]: done }, "/sign-in?next=%2Fgroups%3Fsearch%3Da");
  await give();
  await waitFor(() => expect(address()).toBe("/groups?search=a"));
  expect(asked.at(-1)?.body).toEqual({ username: "ada", password: "seven-green-bottles" });
});

test("an address is sent as one, and nobody is led elsewhere", async () => {
  const { asked, address } = await page({ [`POST ${AT}/auth/login`]: done }, "/sign-in?next=%2F%2Fevil.example");
  await give("ada@example.org");
  await waitFor(() => expect(address()).toBe("/"));
  expect(asked.at(-1)?.body).toMatchObject({ email: "ada@example.org" });
});

test("password managers know the fields", async () => {
  await page({});
  expect(await screen.findByLabelText("Username or email address")).toHaveAttribute("autocomplete", "username");
  expect(screen.getByLabelText("Password")).toHaveAttribute("autocomplete", "current-password");
});

test("a second factor is asked for; the code's blanks are left out", async () => {
  const { asked, address } = await page({
    [`POST ${AT}/auth/login`]: pending,
    [`POST ${AT}/auth/2fa/authenticate`]: done,
  });
  await give();
  const code = await screen.findByLabelText("Authentication code");
  expect(code).toHaveFocus();
  expect(code).toHaveAttribute("autocomplete", "one-time-code");
  await userEvent.type(code, "123 456{Enter}");
  await waitFor(() => expect(address()).toBe("/"));
  expect(asked.at(-1)?.body).toEqual({ code: "123456" });
});

test("a recovery code goes the same way; a wrong one says what to do", async () => {
  const { asked } = await page({
    [`POST ${AT}/auth/login`]: pending,
    [`POST ${AT}/auth/2fa/authenticate`]: refused("incorrect_code"),
  });
  await give();
  await userEvent.click(await screen.findByRole("button", { name: "Use a recovery code" }));
  await userEvent.type(screen.getByLabelText("Recovery code"), "aaaa1111{Enter}");
  expect(await screen.findByRole("alert")).toHaveTextContent("Incorrect code");
  expect(asked.at(-1)?.body).toEqual({ code: "aaaa1111" });
});

test("a code given too late asks for the password again", async () => {
  await page({
    [`POST ${AT}/auth/login`]: pending,
    [`POST ${AT}/auth/2fa/authenticate`]: () => Response.json({ status: 409 }, { status: 409 }),
  });
  await give();
  await userEvent.type(await screen.findByLabelText("Authentication code"), "123456{Enter}");
  expect(await screen.findByText(/The sign-in timed out/)).toBeInTheDocument();
  expect(screen.getByLabelText("Password")).toBeInTheDocument();
});

test.each([
  ["username_password_mismatch", "Incorrect username or password."],
  ["too_many_login_attempts", /Wait a minute/],
  ["something_new", "said in English"],
])("refused with %s", async (code, text) => {
  await page({ [`POST ${AT}/auth/login`]: refused(code) });
  await give();
  expect(await screen.findByRole("alert")).toHaveTextContent(text);
});

test("with Redis away it says so, and that it is no fault of the password", async () => {
  await page({
    [`POST ${AT}/auth/login`]: () =>
      Response.json(
        { code: "accounts.limits_away", title: "attempts can't be counted now; try again soon" },
        { status: 503 },
      ),
  });
  await give();
  expect(await screen.findByText("attempts can't be counted now; try again soon")).toBeInTheDocument();
});

test("who is signed in already is asked whether to go on as they are", async () => {
  const { asked, address } = await page({
    [`POST ${AT}/auth/login`]: () => Response.json({ status: 409 }, { status: 409 }),
    [`DELETE ${AT}/auth/session`]: () => Response.json({ status: 401, data: {} }, { status: 401 }),
  });
  await give();
  await userEvent.click(await screen.findByRole("button", { name: "Sign out and use another account" }));
  expect(await screen.findByLabelText("Password")).toBeInTheDocument();
  expect(asked.at(-1)?.method).toBe("DELETE");
  expect(address()).toBe("/sign-in");
});

test("single sign-on goes where the console says, and comes back to this page", async () => {
  const { asked } = await page({
    ...config([{ id: "sso", name: "Example" }]),
    [`POST ${AT}/auth/provider/redirect`]: () => Response.json({ code: "x.y", title: "not now" }, { status: 503 }),
  });
  await userEvent.click(await screen.findByRole("button", { name: "Continue with Example" }));
  expect(await screen.findByText("not now")).toBeInTheDocument();
  const callback_url = "/sign-in?back=sso&next=%2F";
  expect(asked.at(-1)?.body).toEqual({ provider: "sso", process: "login", callback_url });
});

test("back from the identity provider a pending second factor is asked for", async () => {
  await page({ [`GET ${AT}/auth/session`]: pending }, "/sign-in?back=sso&next=%2Fgroups");
  expect(await screen.findByLabelText("Authentication code")).toBeInTheDocument();
});

test("back from the identity provider, signed in", async () => {
  const { address } = await page({ [`GET ${AT}/auth/session`]: done }, "/sign-in?back=sso&next=%2Fgroups");
  await waitFor(() => expect(address()).toBe("/groups"));
});

test("what went wrong there is said in words", async () => {
  await page({}, "/sign-in?back=sso&error=permission_denied&error_process=login");
  expect(await screen.findByText(/Sign-in not allowed/)).toBeInTheDocument();
});
