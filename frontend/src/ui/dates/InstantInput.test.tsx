import { screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { useState } from "react";
import { beforeEach, expect, test, vi } from "vitest";
import { mount } from "@/test/mount";
// Loaded here, so that no test waits for the library; what it shows fades in, which jsdom may never end: hidden
// elements count.
import "@/ui/dates/Calendar";
import { InstantInput } from "@/ui/dates/InstantInput";

function Page() {
  const [at, setAt] = useState<string | null>(null);
  return (
    <>
      <InstantInput direction="future" label="Due" value={at} onChange={setAt} />
      <output>{at ?? "none"}</output>
      <button onClick={() => setAt(null)}>Clear</button>
    </>
  );
}

beforeEach(() => localStorage.setItem("qmq.zone", "utc"));

test("a date is typed in ISO order", async () => {
  await mount(Page);
  const field = screen.getByRole("textbox", { name: "Due" });
  await userEvent.type(field, "2026-12-01 9:30");
  expect(screen.getByRole("status")).toHaveTextContent("2026-12-01T09:30:00.000Z");
  await userEvent.tab();
  expect(field).toHaveValue("2026-12-01 09:30");
  await userEvent.click(screen.getByRole("button", { name: "Clear" }));
  expect(field).toHaveValue("");
});

test("what is no date says how one is written", async () => {
  await mount(Page);
  await userEvent.type(screen.getByRole("textbox", { name: "Due" }), "01/12/2026");
  expect(screen.getByRole("status")).toHaveTextContent("none");
  await userEvent.tab();
  expect(screen.getByText("Enter a date in the format 2026-12-01 10:11.")).toBeInTheDocument();
});

test("often wanted instants are one click away", async () => {
  vi.spyOn(Date, "now").mockReturnValue(Date.parse("2026-11-24T10:11:12Z"));
  await mount(Page);
  const open = screen.getByRole("button", { name: "Choose a date: Due" });
  await userEvent.click(open);
  await userEvent.click(await screen.findByRole("button", { name: "Tomorrow 09:00", hidden: true }));
  expect(screen.getByRole("status")).toHaveTextContent("2026-11-25T09:00:00.000Z");
  expect(screen.getByRole("textbox", { name: "Due" })).toHaveValue("2026-11-25 09:00");
});

test("a day of the month keeps the time", async () => {
  await mount(Page);
  await userEvent.type(screen.getByRole("textbox", { name: "Due" }), "2026-12-01 10:11");
  await userEvent.click(screen.getByRole("button", { name: "Choose a date: Due" }));
  await userEvent.click(await screen.findByRole("button", { name: "17 December 2026", hidden: true }));
  expect(screen.getByRole("status")).toHaveTextContent("2026-12-17T10:11:00.000Z");
});

test("in the hour that clocks show twice a preset keeps its instant, and the offset is shown", async () => {
  vi.stubEnv("TZ", "America/New_York");
  localStorage.setItem("qmq.zone", "local");
  vi.spyOn(Date, "now").mockReturnValue(Date.parse("2026-11-01T05:20:00Z"));
  await mount(Page);
  await userEvent.click(screen.getByRole("button", { name: "Choose a date: Due" }));
  await userEvent.click(await screen.findByRole("button", { name: "In 1 h", hidden: true }));
  expect(screen.getByRole("status")).toHaveTextContent("2026-11-01T06:20:00.000Z");
  expect(screen.getByRole("textbox", { name: "Due" })).toHaveValue("2026-11-01 01:20 -05:00");
});

test("a time that clocks skip is refused with the reason", async () => {
  vi.stubEnv("TZ", "America/New_York");
  localStorage.setItem("qmq.zone", "local");
  await mount(Page);
  await userEvent.type(screen.getByRole("textbox", { name: "Due" }), "2026-03-08 02:30");
  await userEvent.tab();
  expect(screen.getByRole("status")).toHaveTextContent("none");
  expect(screen.getByText(/^Clocks skip this time/)).toBeInTheDocument();
});
