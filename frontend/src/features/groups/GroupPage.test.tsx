import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, onTestFinished, test, vi } from "vitest";
import limits from "virtual:limits";
import GroupPage from "@/features/groups/GroupPage";
import { detail, row } from "@/features/groups/testing";
import type { Finding } from "@/features/groups/diagnosis";
import type { Member, Place } from "@/features/groups/queries";
import common from "@/i18n/en/common.json";
import { fakeFeeds, snapshot } from "@/test/feeds";
import { answer, mount, type Answers } from "@/test/mount";
import type { Limits } from "../../../limits";

const ONE = "/api/v1/consumer-groups/orders/billing/";
const NOTHING = {
  "GET /api/v1/alerts/": { results: [], next: null, previous: null },
  "GET /api/v1/dead-letters/": { results: [], next: null, unreachable: {} },
  "GET /api/v1/history/": { step_seconds: 10, at: [], fields: {}, reason: "not kept yet" },
};
const member: Member = {
  broker_group: "g1",
  consumer_id: "c1",
  address: "10.0.0.1:5",
  duplicate_addresses: [],
  online: true,
  last_seen_seconds: 1,
  in_flight: 3,
  in_flight_ranges: [["57", "60"]],
  in_flight_ranges_total: 1,
  pulled: "60",
  acked: "57",
  oldest_unacked_ms: 1_500,
  unacked_seconds: 229,
  is_paused: false,
  reasons: {},
};
const tagged = (body: object) => () => Response.json(body, { headers: { ETag: '"v3"' } });

let feeds: ReturnType<typeof fakeFeeds>;
beforeEach(() => {
  feeds = fakeFeeds();
});

async function open(answers: Answers) {
  const { asked } = answer({ ...NOTHING, ...answers });
  const page = await mount(GroupPage, "/groups/orders/billing", "/groups/$subject/$group");
  return { asked, page };
}
const changes = <One extends { method: string }>(asked: One[]) => asked.filter(({ method }) => method !== "GET");

test("live numbers, and numbers that were not measured", async () => {
  await open({ [`GET ${ONE}`]: tagged(detail()) });
  await screen.findByText("Progress by broker group");
  expect(feeds[0]?.path).toBe("/ws/lag/?subject=orders&group=billing");
  const entry = { ...row("billing", { lag: 1_234, ack_rate: null, reason: "measured for less than a second" }) };
  feeds[0]?.say(snapshot({ subjects: {}, groups: { "orders\nbilling": entry } }));
  await waitFor(() => expect(document.querySelector("[data-tile=Lag]")).toHaveTextContent("1,234"));
  const tiles = [...document.querySelectorAll("[data-tile]")].map((tile) => tile.outerHTML).join("");
  expect(tiles).not.toMatch(/(column|meaning)\.\w/);
  expect(document.querySelector('[data-tile="Acked/s"]')).toHaveTextContent("—");
  expect(document.querySelector('[data-tile="Sent/s"]')).toHaveTextContent("—");
});

test("the state is that of the diagnosis; when the live one differs, both are read again", async () => {
  // Nothing is read because some time has passed.
  vi.useFakeTimers({ toFake: ["setInterval"] });
  onTestFinished(() => void vi.useRealTimers());
  let now = detail({ state: "caught_up", diagnosis: [{ code: "keeping_up", severity: "ok", values: { lag: 0 } }] });
  await open({ [`GET ${ONE}`]: () => tagged(now)() });
  const found = within(await screen.findByRole("region", { name: "Diagnosis" }));
  expect(found.getByText("Keeping up: no problem found.")).toBeVisible();
  const badge = () => document.querySelector("[data-state]");
  expect(badge()).toHaveTextContent("Keeping up");
  const gone: Finding = { code: "no_consumers", severity: "critical", values: { lag: 4, arriving: null } };
  now = detail({ state: "stopped", diagnosis: [gone] });
  feeds[0]?.say(
    snapshot({ subjects: {}, groups: { "orders\nbilling": row("billing", { state: "stopped", lag: 4 }) } }),
  );
  // At no moment the badge is of another measurement than the sentences.
  await waitFor(() => {
    const isGone = found.queryByText(/No consumer is online\./) !== null;
    expect(badge()).toHaveTextContent(isGone ? "Stopped" : "Keeping up");
    expect(isGone).toBe(true);
  });
});

test("what is wrong stands in sentences, worst first, each with what helps", async () => {
  const { asked } = await open({
    [`GET ${ONE}`]: tagged(
      detail({
        members: [member],
        diagnosis: [
          { code: "consumer_stuck", severity: "critical", values: { consumer: "c1", count: 8, seconds: 229 } },
          {
            code: "too_few_consumers",
            severity: "warning",
            values: { arriving: 1.4, acked: 0.9, count: 1, needed: 2, seconds: 65 },
          },
          { code: "retry_loop", severity: "warning", values: { failing: 1.5, attempts: 2, pending: null } },
        ],
      }),
    ),
    [`POST ${ONE}pause/`]: {
      target: "t",
      dry_run: true,
      is_change: true,
      before: {},
      after: {},
      version: "4",
      notes: [],
    },
  });
  const found = within(await screen.findByRole("region", { name: "Diagnosis" }));
  expect(found.getByText(/Consumer c1 holds 8 messages and has acknowledged none for 3m 49s\./)).toBeVisible();
  const few =
    /1\.4 messages\/s arrive, 1 consumer acknowledges 0\.9\/s: about 2 would keep up\. The oldest .* is 1m 5s old\./;
  expect(found.getByText(few)).toBeVisible();
  expect(found.getByText(/1\.5 of 2 attempts\/s fail and are returned for another attempt\./)).toBeVisible();
  expect(found.getByRole("link", { name: "Show failed messages" })).toHaveAttribute(
    "href",
    "/subjects/%25RETRY%25orders%25billing?tab=messages",
  );
  await userEvent.click(found.getByRole("button", { name: "Start a consumer" }));
  expect(await screen.findByText("qmq consume orders billing")).toBeInTheDocument();
  await userEvent.keyboard("{Escape}");
  await userEvent.click(found.getByRole("button", { name: "Pause c1" }));
  await waitFor(() => expect(changes(asked)[0]).toMatchObject({ body: { consumer_id: "c1" } }));
});

const MOVED = {
  target: "orders/billing",
  dry_run: true,
  is_change: true,
  before: { g1: "60" },
  after: { g1: "100" },
  broker_groups: [
    { broker_group: "g1", position: "60", new_position: "100", skipped: 40, repeated: 0, in_flight: 0, pending: 0 },
  ],
};

test("the backlog is skipped with one button and its preview, and no name is typed", async () => {
  const { asked } = await open({ [`GET ${ONE}`]: tagged(detail()), [`POST ${ONE}reset/`]: MOVED });
  await userEvent.click(await screen.findByRole("button", { name: "Skip backlog" }));
  const dialog = within(await screen.findByRole("dialog"));
  expect(await dialog.findByText(/40 messages are skipped/)).toBeInTheDocument();
  await userEvent.click(dialog.getByRole("button", { name: "Skip backlog" }));
  await waitFor(() => expect(changes(asked)).toHaveLength(2));
  expect(changes(asked)[1]).toMatchObject({ body: { to: "latest" } });
});

test("a reset of the last hour can be undone, to the positions before it", async () => {
  const reset = { at: "2026-11-21T10:00:00Z", by: "olga", before: { g1: "60" }, after: { g1: "100" } };
  const { asked } = await open({
    [`GET ${ONE}`]: tagged(detail({ latest_reset: reset })),
    [`POST ${ONE}reset/`]: MOVED,
  });
  expect(await screen.findByText(/Progress reset by olga/)).toBeVisible();
  await userEvent.click(screen.getByRole("button", { name: "Undo reset" }));
  const dialog = within(await screen.findByRole("dialog"));
  expect(await dialog.findByText(/acknowledged after the reset .* are delivered again/)).toBeInTheDocument();
  await userEvent.click(await dialog.findByRole("button", { name: "Undo reset" }));
  await waitFor(() => expect(changes(asked)).toHaveLength(2));
  expect(changes(asked)[1]).toMatchObject({ body: { to: "positions", positions: { g1: "60" } } });
});

test("a reset that moved nothing is not offered to be undone", async () => {
  const reset = { at: "2026-11-21T10:00:00Z", by: "olga", before: { g1: "60" }, after: { g1: "60" } };
  await open({ [`GET ${ONE}`]: tagged(detail({ latest_reset: reset })) });
  await screen.findByText("Progress by broker group");
  expect(screen.queryByText(/Progress reset by/)).not.toBeInTheDocument();
});

test("positions are copied from another group of the subject", async () => {
  const { asked } = await open({
    [`GET ${ONE}`]: tagged(detail()),
    "GET /api/v1/consumer-groups/": { results: [detail(), detail({ name: "audit" })], next: null, previous: null },
    [`POST ${ONE}reset/`]: MOVED,
  });
  await userEvent.click(await screen.findByRole("button", { name: "Reset progress" }));
  const dialog = within(await screen.findByRole("dialog"));
  await userEvent.click(dialog.getByLabelText("Position of another group"));
  await dialog.findByRole("option", { name: "audit" });
  expect(dialog.queryByRole("option", { name: "billing" })).not.toBeInTheDocument();
  await userEvent.selectOptions(dialog.getByLabelText("Group"), "audit");
  await userEvent.click(dialog.getByRole("button", { name: "Preview" }));
  await waitFor(() => expect(changes(asked)[0]).toMatchObject({ body: { to: "group", from_group: "audit" } }));
});

test("a frequent time is one click", async () => {
  const { asked } = await open({ [`GET ${ONE}`]: tagged(detail()), [`POST ${ONE}reset/`]: MOVED });
  await userEvent.click(await screen.findByRole("button", { name: "Reset progress" }));
  const dialog = within(await screen.findByRole("dialog"));
  await userEvent.click(dialog.getByLabelText("Time"));
  expect(dialog.getByRole("button", { name: "Preview" })).toBeDisabled();
  const before = Date.now();
  await userEvent.click(dialog.getByRole("button", { name: "1 h ago" }));
  await userEvent.click(dialog.getByRole("button", { name: "Preview" }));
  await waitFor(() => expect(changes(asked)).toHaveLength(1));
  const { time } = changes(asked)[0]?.body as { time: string };
  expect(Date.parse(time)).toBeLessThanOrEqual(before - 3_600_000 + 1_000);
});

test("messages of the subject that are lost to damage are counted", async () => {
  await open({ [`GET ${ONE}`]: tagged(detail()) });
  await screen.findByText("Progress by broker group");
  const orders = { subject: "orders", withheld: 1, withheld_on: ["g7"], reason: null };
  const groups = { "orders\nbilling": row("billing", { withheld: 1 }) };
  feeds[0]?.say(snapshot({ subjects: { orders }, groups }));
  expect(await screen.findByText("1 message withheld")).toBeVisible();
  expect(screen.getByRole("link", { name: "g7" })).toHaveAttribute("href", "/brokers/g7");
});

test("a reset asks for its preview first, says it in words, and takes the name and the version", async () => {
  const preview = {
    target: "orders/billing",
    dry_run: true,
    is_change: true,
    before: { g1: "60" },
    after: { g1: "100" },
    broker_groups: [
      { broker_group: "g1", position: "60", new_position: "100", skipped: 40, repeated: 0, in_flight: 1, pending: 0 },
    ],
  };
  const { asked } = await open({ [`GET ${ONE}`]: tagged(detail()), [`POST ${ONE}reset/`]: preview });
  await userEvent.click(await screen.findByRole("button", { name: "Reset progress" }));
  const dialog = await screen.findByRole("dialog");
  await userEvent.click(within(dialog).getByLabelText("Latest"));
  await userEvent.click(within(dialog).getByRole("button", { name: "Preview" }));
  expect(await within(dialog).findByText(/40 messages are skipped/)).toBeInTheDocument();
  expect(within(dialog).getByText(/1 message in flight stays/)).toBeInTheDocument();
  expect(within(dialog).queryByText(/delivered again/)).not.toBeInTheDocument();
  const apply = within(dialog).getByRole("button", { name: "Reset progress" });
  expect(apply).toBeDisabled();
  await userEvent.type(within(dialog).getByLabelText("Type billing to confirm"), "billing");
  await userEvent.click(apply);
  await waitFor(() => expect(screen.queryByRole("dialog")).not.toBeInTheDocument());
  expect(changes(asked)).toMatchObject([
    { body: { to: "latest", reason: "" } },
    { body: { to: "latest", reason: "" } },
  ]);
  expect(asked.filter(({ method }) => method === "POST").map(({ url }) => url.search)).toEqual([
    "?dry_run=true",
    "?dry_run=false",
  ]);
});

test("another place makes the preview stale: it has to be asked for again", async () => {
  const preview = { target: "t", dry_run: true, is_change: true, before: {}, after: {}, broker_groups: [] };
  await open({ [`GET ${ONE}`]: tagged(detail()), [`POST ${ONE}reset/`]: preview });
  await userEvent.click(await screen.findByRole("button", { name: "Reset progress" }));
  const dialog = await screen.findByRole("dialog");
  await userEvent.click(within(dialog).getByRole("button", { name: "Preview" }));
  await within(dialog).findByText("Preview of changes");
  await userEvent.click(within(dialog).getByLabelText("Latest"));
  expect(within(dialog).queryByText("Preview of changes")).not.toBeInTheDocument();
  await userEvent.click(within(dialog).getByLabelText("Sequences"));
  expect(within(dialog).getByRole("button", { name: "Preview" })).toBeDisabled();
});

test("an ID that several processes use has a badge that names their connections", async () => {
  const shared = { ...member, duplicate_addresses: ["10.0.0.1:5", "10.0.0.2:7"] };
  const other = { ...member, consumer_id: "c2" };
  await open({ [`GET ${ONE}`]: tagged(detail({ members: [shared, other], members_total: 2 })) });
  const badge = await screen.findByText("duplicate ID");
  expect(document.querySelectorAll("[data-duplicate]")).toHaveLength(1);
  await userEvent.hover(badge);
  expect(await screen.findByText(/10\.0\.0\.1:5, 10\.0\.0\.2:7/)).toBeInTheDocument();
});

test("one consumer is paused by itself", async () => {
  const change = { target: "t", dry_run: true, is_change: true, before: {}, after: {}, version: "4", notes: [] };
  const { asked } = await open({
    [`GET ${ONE}`]: tagged(detail({ members: [member], members_total: 1 })),
    [`POST ${ONE}pause/`]: change,
  });
  await userEvent.click(await screen.findByRole("button", { name: "Pause c1" }));
  const dialog = await screen.findByRole("dialog");
  await userEvent.click(await within(dialog).findByRole("button", { name: "Pause" }));
  await waitFor(() => expect(changes(asked)).toHaveLength(2));
  expect(changes(asked)[1]).toMatchObject({ body: { consumer_id: "c1", reason: "" } });
});

test("forgetting a group in use is refused with the reason, and can be forced", async () => {
  const change = { target: "t", dry_run: true, is_change: true, before: {}, after: null, version: "0", notes: [] };
  const { asked } = await open({
    [`GET ${ONE}`]: tagged(detail()),
    [`DELETE ${ONE}`]: () =>
      changes(asked).length > 1
        ? change
        : Response.json({ code: "consumer_group.in_use", title: "", detail: "billing is in use" }, { status: 409 }),
  });
  await userEvent.click(await screen.findByRole("button", { name: "Delete group" }));
  const dialog = await screen.findByRole("dialog");
  await userEvent.click(within(dialog).getByRole("button", { name: "Preview" }));
  expect(await within(dialog).findByText("billing is in use")).toBeInTheDocument();
  await userEvent.click(within(dialog).getByLabelText(/Force, even if in use/));
  await userEvent.click(within(dialog).getByRole("button", { name: "Preview" }));
  expect(await within(dialog).findByText("Preview of changes")).toBeInTheDocument();
  expect(changes(asked)).toMatchObject([{ body: { force: false } }, { body: { force: true } }]);
});

test("each value that can be set is on the page and in the dialog", async () => {
  await open({ [`GET ${ONE}`]: tagged(detail()) });
  const edit = await screen.findByRole("button", { name: "Edit details" });
  const names = Object.keys((limits as Limits).PatchedGroupChangeRequest ?? {}).filter((name) => name !== "reason");
  const labels = names.map((name) => common.field[name as keyof typeof common.field]);
  expect(labels).toContain("Description");
  for (const label of labels) expect(screen.getByText(label)).toBeVisible();
  await userEvent.click(edit);
  const dialog = within(await screen.findByRole("dialog"));
  await dialog.findByRole("button", { name: "Preview" });
  for (const label of labels) expect(dialog.getAllByLabelText(label)[0]).toBeVisible();
});

test("whoever may not change the group gets no buttons for it", async () => {
  await open({ [`GET ${ONE}`]: tagged(detail({ may_change: false, members: [member], members_total: 1 })) });
  await screen.findByText("c1");
  for (const name of ["Pause", "Pause c1", "Skip backlog", "Reset progress", "Delete group", "Edit details"])
    expect(screen.queryByRole("button", { name })).not.toBeInTheDocument();
});

test("a broker group that can't be asked is unknown with the reason, and no lesson is given", async () => {
  const place: Place = {
    broker_group: "g1",
    reason: "node g1-a does not answer",
    begin_sequence: null,
    next_sequence: null,
    end_sequence: null,
    backlog: null,
    in_flight: null,
    lag: null,
    time_lag_seconds: null,
    pull_rate: null,
    ack_rate: null,
  };
  await open({ [`GET ${ONE}`]: tagged(detail({ progress: [place] })) });
  await screen.findByText("Progress by broker group");
  expect(screen.getAllByLabelText("unknown: node g1-a does not answer").length).toBeGreaterThan(3);
  expect(screen.queryByText("No consumer has pulled yet")).not.toBeInTheDocument();
});

test("a group that is not there is said to be so, with the lines that make it", async () => {
  const problem = { code: "consumer_group.unknown", title: "", detail: "no consumer group 'billing'" };
  await open({ [`GET ${ONE}`]: () => Response.json(problem, { status: 404 }) });
  expect(await screen.findByText("no consumer group 'billing'")).toBeInTheDocument();
  expect(screen.getByText("qmq consume orders billing")).toBeInTheDocument();
});
