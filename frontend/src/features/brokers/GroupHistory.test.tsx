import { screen, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test, vi } from "vitest";
import { GroupHistory } from "@/features/brokers/GroupHistory";
import { setLanguage } from "@/i18n";
import { answer, mount } from "@/test/mount";

const NOW = Math.floor(Date.now() / 3_600_000) * 3_600;
const iso = (secondsAgo: number) => new Date((NOW - secondsAgo) * 1000).toISOString();
const SUMMARY = {
  job: "summaries",
  step_seconds: 600,
  state: "filled",
  as_of: iso(600),
  is_demo: false,
  missing: [],
  omitted_steps_count: 0,
  fields: ["send_rate", "pull_rate", "send_bytes_rate", "disk_used_bytes", "connections"],
};
const HISTORY = {
  from_at: iso(21_600),
  to_at: iso(0),
  step_seconds: 30,
  at: [iso(5_400), iso(4_800), iso(4_200), iso(3_600), iso(1_800)],
  fields: {
    send_rate: [21, 22, 23, 24, 25],
    pull_rate: [31, 32, 33, 34, 35],
    send_bytes_rate: [4_100, 4_200, 4_300, 4_400, 4_500],
    disk_used_bytes: [null, null, null, 5, 6],
    connections: [71, 72, 73, 74, 75],
  },
  reason: null,
  border_at: iso(3_600),
  summary: SUMMARY,
  figures: {},
};
const GAP = /^Where a line is missing, nothing was measured:/;

beforeEach(() => {
  vi.stubGlobal("ResizeObserver", class { observe() {} unobserve() {} disconnect() {} }); // prettier-ignore
  vi.stubGlobal("WebSocket", class { close() {} }); // prettier-ignore
});

function open(more: object = {}) {
  answer({
    "GET /api/v1/history/": { ...HISTORY, ...more },
    "GET /api/v1/events/": { results: [], next: null },
    "GET /api/v1/alert-rules/": { results: [], next: null, previous: null },
  });
  return mount(() => <GroupHistory name="g1" kind="broker" />, "/brokers/g1?range=6h", "/brokers/$name");
}

test("rates, bytes and connections are there before the border, and the job that stored them is named", async () => {
  await open();
  expect(await screen.findByText(/^Before .*: the highest value of each 10m, from summaries up to /)).toBeVisible();
  await userEvent.click(await screen.findByRole("button", { name: /^Show as table: g1: Sent\/s/ }));
  const table = within(await screen.findByRole("region", { name: "g1: Sent/s · Pulled/s · Bytes sent/s" }));
  const rows = table.getAllByRole("row").map(({ textContent }) => textContent);
  expect(rows.some((text) => text.endsWith("21314 KiB"))).toBe(true);
  expect(rows.some((text) => text.includes("◂ Left of this line: the highest value of each 10m, from summaries"))).toBe(
    true,
  );
  expect(screen.queryByText(/does not store/)).toBeNull();
  expect(screen.queryByText(GAP)).toBeNull();
});

test("a time in which nothing was measured is a gap, and its possible causes are named", async () => {
  const gap = Object.fromEntries(
    Object.entries(HISTORY.fields).map(([field, values]) => [
      field,
      values.map((value, i) => (i === 1 ? null : value)),
    ]),
  );
  await open({ fields: gap });
  expect(await screen.findByText(GAP)).toBeVisible();
});

test("without summaries, and when they are behind, the page names the job and leads to it", async () => {
  const page = await open({ border_at: null, summary: { ...SUMMARY, state: "no_run_yet", as_of: null } });
  expect(await screen.findByText(/stored by the background job “summaries”, which has not finished/)).toBeVisible();
  expect(screen.getByRole("link", { name: "Open Background jobs" })).toHaveAttribute("href", "/jobs");
  page.unmount();
  await open({ summary: { ...SUMMARY, as_of: iso(3_600 + 1_860) } });
  expect(await screen.findByText(/^The background job “summaries” is behind: values after/)).toBeVisible();
  await setLanguage("zh");
  expect(await screen.findByText(/^后台任务“summaries”没有跟上/)).toBeVisible();
  await setLanguage("en");
});
