import { screen, waitFor } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test } from "vitest";
import SubjectsPage from "@/features/subjects/SubjectsPage";
import { fakeFeeds, snapshot } from "@/test/feeds";
import { me } from "@/test/me";
import { answer, mount } from "@/test/mount";

let feeds: ReturnType<typeof fakeFeeds>;
const row = (name: string) => ({
  name,
  owner: "shop",
  tags: ["eu"],
  is_archived: false,
  allowed_groups: null,
  retention_hours: null,
  consumer_groups: 2,
  broker_groups: ["b1"],
  phases: {},
  may_change: true,
  updated_at: "2026-11-21T10:00:00Z",
});

beforeEach(() => {
  feeds = fakeFeeds();
});

test("filters, order and page go to the API and stay in the address", async () => {
  const { asked } = answer({
    "GET /api/v1/subjects/": { results: [row("order.paid"), row("order.sent")], next: "c2", previous: null },
  });
  const page = await mount(SubjectsPage, "/subjects");
  expect(await screen.findByRole("link", { name: "order.paid" })).toHaveAttribute("href", "/subjects/order.paid");
  expect(screen.getByText("2 rows on this page")).toBeInTheDocument();
  await userEvent.type(screen.getByLabelText("Search subjects"), "ord");
  await waitFor(() => expect(page.address()).toContain("search=ord"));
  await userEvent.click(screen.getByRole("button", { name: "Subject" }));
  await waitFor(() => expect(page.address()).toContain("ordering=-name"));
  await userEvent.click(screen.getByRole("button", { name: "Sent/s" }));
  await waitFor(() => expect(page.address()).toContain("ordering=-send_rate"));
  await userEvent.click(screen.getByRole("button", { name: "Subject" }));
  await waitFor(() => expect(page.address()).toContain("ordering=name"));
  await userEvent.click(screen.getByRole("button", { name: "Next" }));
  await waitFor(() => expect(page.address()).toContain("cursor=c2"));
  await waitFor(() =>
    expect(Object.fromEntries(asked.at(-1)?.url.searchParams ?? [])).toEqual({
      search: "ord",
      ordering: "name",
      limit: "50",
      cursor: "c2",
    }),
  );
});

test("a rate that was not measured is unknown, not zero", async () => {
  answer({ "GET /api/v1/subjects/": { results: [row("a")], next: null, previous: null } });
  await mount(SubjectsPage, "/subjects");
  const cell = (await screen.findByRole("link", { name: "a" })).closest("tr")?.querySelector("[data-cell=send_rate]");
  expect(cell).toHaveTextContent("—");
  expect(screen.getByText("1 row")).toBeInTheDocument();
});

test("a row shows its rate and the group that is furthest behind", async () => {
  answer({ "GET /api/v1/subjects/": { results: [row("a")], next: null, previous: null } });
  await mount(SubjectsPage, "/subjects");
  const line = (await screen.findByRole("link", { name: "a" })).closest("tr");
  expect(feeds.map(({ path }) => path)).toContain("/ws/lag/");
  const entry = { send_rate: 12, highest_lag: 340, highest_lag_group: "billing", reason: null };
  feeds.find(({ path }) => path === "/ws/lag/")?.say(snapshot({ subjects: { a: entry }, groups: {} }));
  await waitFor(() => expect(line?.querySelector("[data-cell=worst_lag]")).toHaveTextContent("340"));
  expect(line?.querySelector("[data-cell=send_rate]")).toHaveTextContent("12");
});

test("an empty list teaches the first message", async () => {
  answer({ "GET /api/v1/subjects/": { results: [], next: null, previous: null } });
  await mount(SubjectsPage, "/subjects");
  expect(await screen.findByText(/producer.send/)).toBeInTheDocument();
});

test("folders are read when they are opened, in pages, and what is open is in the address", async () => {
  const node = (name: string, others: object = {}) => ({
    name,
    is_folder: name.endsWith("."),
    subjects: 3,
    send_rate: 2,
    highest_lag: 40,
    at_least: null,
    reason: null,
    ...others,
  });
  const { asked } = answer({
    "GET /api/v1/subject-tree/": ({ searchParams }: URL) => {
      const folder = searchParams.get("folder");
      if (folder === "") return Response.json({ at: null, reason: null, results: [node("order.")], next: null });
      const isRest = searchParams.get("cursor") === "c2";
      const away = {
        send_rate: null,
        highest_lag: null,
        at_least: { send_rate: 7, highest_lag: 0 },
        reason: "g1 is away",
      };
      return Response.json({
        at: null,
        reason: null,
        results: isRest ? [node("order.sent", away)] : [node("order.paid")],
        next: isRest ? null : "c2",
      });
    },
  });
  const page = await mount(SubjectsPage, "/subjects?view=tree");
  const folder = await screen.findByRole("button", { name: /^order\. \d+ subjects?$/ });
  expect(asked.map(({ url }) => url.searchParams.get("folder")).filter((name) => name !== null)).toEqual([""]);
  expect(folder).toHaveAttribute("aria-expanded", "false");
  await userEvent.click(folder);
  await waitFor(() => expect(page.address()).toBe("/subjects?view=tree&open=order."));
  expect(await screen.findByRole("link", { name: "paid" })).toHaveAttribute("href", "/subjects/order.paid");
  expect(screen.queryByRole("link", { name: "sent" })).not.toBeInTheDocument();
  await userEvent.click(screen.getByRole("button", { name: "More in order." }));
  const sent = (await screen.findByRole("link", { name: "sent" })).closest("tr");
  expect(sent).toHaveTextContent("≥ 7");
  expect(sent).not.toHaveTextContent("≥ 0");
  await userEvent.click(screen.getByRole("button", { name: "List" }));
  await waitFor(() => expect(page.address()).not.toContain("view=tree"));
});

test("a subject is made a favourite, and no longer; the list can be limited to favourites", async () => {
  let favourites = ["parts"];
  const { asked } = answer({
    "GET /api/v1/me/": () => Response.json(me({ preferences: { favourite_subjects: favourites } })),
    "GET /api/v1/subjects/": { results: [row("orders"), row("parts")], next: null, previous: null },
    "PATCH /api/v1/me/": (_: URL, body: { preferences: { favourite_subjects: string[] } }) => {
      favourites = body.preferences.favourite_subjects;
      return Response.json({});
    },
  });
  const page = await mount(SubjectsPage, "/subjects");
  expect(await screen.findByRole("button", { name: "Remove parts from favourites" })).toBeInTheDocument();
  await userEvent.click(screen.getByRole("button", { name: "Add orders to favourites" }));
  await userEvent.click(await screen.findByRole("button", { name: "Remove parts from favourites" }));
  expect(await screen.findByRole("button", { name: "Add parts to favourites" })).toBeInTheDocument();
  const sent = asked.filter(({ method }) => method === "PATCH").map(({ body }) => body);
  expect(sent).toEqual([
    { preferences: { favourite_subjects: ["parts", "orders"] }, reason: "" },
    { preferences: { favourite_subjects: ["orders"] }, reason: "" },
  ]);
  expect(page.address()).toBe("/subjects");
});

test("favourites that are chosen one after the other, before the first answer, are all kept", async () => {
  let favourites: string[] = [];
  let send: () => void = () => undefined;
  const first = new Promise<void>((resolve) => {
    send = resolve;
  });
  const { asked } = answer({
    "GET /api/v1/me/": () => Response.json(me({ preferences: { favourite_subjects: favourites } })),
    "GET /api/v1/subjects/": { results: [row("orders"), row("parts")], next: null, previous: null },
    "PATCH /api/v1/me/": async (_: URL, body: { preferences: { favourite_subjects: string[] } }) => {
      await first;
      favourites = body.preferences.favourite_subjects;
      return Response.json({});
    },
  });
  await mount(SubjectsPage, "/subjects");
  await userEvent.click(await screen.findByRole("button", { name: "Add orders to favourites" }));
  await userEvent.click(screen.getByRole("button", { name: "Add parts to favourites" }));
  send();
  expect(await screen.findByRole("button", { name: "Remove parts from favourites" })).toBeInTheDocument();
  const sent = asked.filter(({ method }) => method === "PATCH").map(({ body }) => body);
  expect(sent).toEqual([
    { preferences: { favourite_subjects: ["orders"] }, reason: "" },
    { preferences: { favourite_subjects: ["orders", "parts"] }, reason: "" },
  ]);
});
