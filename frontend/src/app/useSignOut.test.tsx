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
    const { data } = useQuery({ queryKey: ["config"], queryFn: read });
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
