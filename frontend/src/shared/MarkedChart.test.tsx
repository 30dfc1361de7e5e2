import { screen, within } from "@testing-library/react";
import { userEvent } from "@testing-library/user-event";
import { afterEach, expect, test, vi } from "vitest";
import { MarkedChart } from "@/shared/MarkedChart";
import { answer, mount } from "@/test/mount";

const NOW = Date.UTC(2026, 10, 30, 12) / 1000;
const iso = (seconds: number) => new Date(seconds * 1000).toISOString();
const EVENT = { id: "1", severity: "warning", action: null, subject: null, group: null, node: null, actor: null };
const FAILOVER = {
  ...EVENT,
  at: iso(NOW - 15),
  kind: "failover",
  target: "<b>g1</b>",
  broker_group: "g1",
  reason: null,
  why: null,
  values: { master: "g1-b", previous: "g1-a" },
};

function Chart() {
  return (
    <MarkedChart
      about={{ broker_group: "g1" }}
      label="Rates"
      at={[NOW - 30, NOW - 20, NOW - 10, NOW]}
      series={[{ label: "Sent", values: [1, 2, 3, 4] }]}
    />
  );
}

afterEach(() => localStorage.clear());

test("the table of a chart names what happened, between the numbers, and the switch leaves it out", async () => {
  vi.stubGlobal("ResizeObserver", class { observe() {} unobserve() {} disconnect() {} }); // prettier-ignore
  const { asked } = answer({ "GET /api/v1/events/": { results: [FAILOVER], next: null } });
  await mount(Chart);
  await userEvent.click(await screen.findByRole("button", { name: "Show as table: Rates" }));
  const table = await screen.findByRole("region", { name: "Rates" });
  await within(table).findByText("⇄ Failover of <b>g1</b>: g1-a → g1-b");
  const rows = within(table)
    .getAllByRole("row")
    .map((row) => row.textContent);
  expect(rows.findIndex((text) => text.includes("Failover"))).toBe(3);
  const searchParams = new URLSearchParams(asked.map(({ url }) => url.search).join("&"));
  expect(searchParams.get("broker_group")).toBe("g1");
  expect(searchParams.getAll("kind")).toContain("failover");
  await userEvent.click(screen.getByRole("button", { name: "Markers of events: Rates" }));
  expect(within(table).queryByText(/Failover/)).toBeNull();
});
