import { useQuery, useQueryClient } from "@tanstack/react-query";
import { act, screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { expect, test } from "vitest";
import { useSignOut } from "@/app/useSignOut";
import { answer, mount } from "@/test/mount";

test("signing out forgets what was read, but not what the sign-in page is reading", async () => {
  answer({ "DELETE /_allauth/browser/v1/auth/session": Response.json({ status: 401 }, { status: 401 }) });
  let respond: (text: string) => void = () => undefined;
  const read = () => new Promise<string>((resolve) => (respond = resolve));
  function Page() {
    const client = useQueryClient();
    const leave = useSignOut();
    const { data } = useQuery({ queryKey: ["sign-in", "config"], queryFn: read });
    return (
      <>
        <button onClick={() => client.setQueryData(["secret"], 1)}>Read</button>
        <button onClick={() => leave.mutate()}>Sign out</button>
        <output>{`${data ?? "pending"} ${leave.isSuccess ? String(client.getQueryData(["secret"])) : ""}`}</output>
      </>
    );
  }
  await mount(Page, "/sign-in");
  await userEvent.click(screen.getByRole("button", { name: "Read" }));
  await userEvent.click(screen.getByRole("button", { name: "Sign out" }));
  await waitFor(() => expect(screen.getByRole("status")).toHaveTextContent("pending undefined"));
  act(() => respond("ready"));
  await waitFor(() => expect(screen.getByRole("status")).toHaveTextContent("ready undefined"));
});

/** A page that reads something when it is shown, and signs out. */
async function reading(signOut: () => Response) {
  const signals: AbortSignal[] = [];
  answer({ "DELETE /_allauth/browser/v1/auth/session": signOut });
  await mount(function Page() {
    const leave = useSignOut();
    useQuery({ queryKey: ["alerts"], queryFn: ({ signal }) => new Promise(() => signals.push(signal)) });
    return <button onClick={() => leave.mutate()}>Sign out</button>;
  });
  await waitFor(() => expect(signals).toHaveLength(1));
  return { signals, isAborted: () => signals.map(({ aborted }) => aborted) };
}

test("requests that are under way are canceled before the session ends", async () => {
  const atSignOut: boolean[][] = [];
  const { signals, isAborted } = await reading(() => {
    atSignOut.push(isAborted());
    return Response.json({ status: 401 }, { status: 401 });
  });
  await userEvent.click(screen.getByRole("button", { name: "Sign out" }));
  await waitFor(() => expect(screen.queryByRole("button")).toBeNull());
  expect(atSignOut).toEqual([[true]]);
  expect(signals).toHaveLength(1);
});

test("what was canceled is read again if the session could not be ended", async () => {
  const { signals, isAborted } = await reading(() => Response.json({ code: "service.unavailable" }, { status: 503 }));
  await userEvent.click(screen.getByRole("button", { name: "Sign out" }));
  await waitFor(() => expect(signals).toHaveLength(2));
  expect(isAborted()).toEqual([true, false]);
});
