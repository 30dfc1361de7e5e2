import { screen } from "@testing-library/react";
import { expect, test } from "vitest";
import type { Event } from "@/api/events";
import { loadTexts, NAMESPACES, setLanguage } from "@/i18n";
import { EventList } from "@/shared/EventList";
import { RecentEvents } from "@/shared/RecentEvents";
import { answer, mount } from "@/test/mount";

const silent = { code: "master_silent", values: { master: "g1-a", seconds: 6.1 }, text: "in English" };
const promoted = { code: "promoted", values: { why: silent, node: "g1-b" }, text: "in English" };

function event(kind: Event["kind"], more: Partial<Event>): Event {
  return {
    id: JSON.stringify([kind, more]),
    at: "2026-11-30T10:30:00Z",
    kind,
    severity: "info",
    target: "g1",
    action: null,
    subject: null,
    group: null,
    broker_group: null,
    node: null,
    actor: null,
    reason: null,
    why: null,
    values: {},
    ...more,
  };
}

const change = (action: string, target: string, more: Partial<Event> = {}) =>
  event("change", { action, target, values: { fields: [] }, ...more });

const EVENTS: readonly (readonly [Event, string, string | null])[] = [
  [
    event("failover", { broker_group: "g1", why: promoted, values: { master: "g1-b", previous: "g1-a" } }),
    "Broker group g1 failed over from g1-a to g1-b: master g1-a has sent no heartbeat for 6.1 s",
    "/brokers/g1",
  ],
  [event("failover", { values: { epoch: 3 } }), "Broker group g1 began a new epoch with the same master", null],
  [
    event("alert_fired", { target: "a/b", values: { alert: "7", rule: "Broker group offline" } }),
    "Alert “Broker group offline” fires for a/b",
    "/alerts?alert=7",
  ],
  [
    event("unreachable", {
      target: "g1-a",
      node: "g1-a",
      broker_group: "g1",
      reason: "no response within 0.75 s",
      why: { code: "no_response", values: { seconds: "0.75" }, text: "no response within 0.75 s" },
    }),
    "Node g1-a does not respond: no response within 0.75 s",
    "/brokers/g1",
  ],
  [event("in_sync", { values: { joined: [], left: ["g1-a"] } }), "g1-a left the in-sync set of g1", null],
  [event("state", { values: { after: "offline" }, reason: "registered" }), "Broker group g1 is offline", null],
  [
    event("deployment", { actor: "ada", values: { create: 2, archive: 1 } }),
    "Settings were applied: 2 created, 1 archived, by ada",
    null,
  ],
  [
    change("subject.update", "orders", { subject: "orders", actor: "ada", values: { fields: ["owner"] } }),
    "Subject orders: changed (owner), by ada",
    "/subjects/orders",
  ],
  [change("subject.delete_failed", "<b>x</b>", { actor: "job moves" }), "Subject <b>x</b>: deleted (failed)", null],
  [change("new_thing.some_verb", "x", {}), "new thing x: some verb", null],
  [event("reset", { target: "s/g", subject: "s", group: "g" }), "The progress of s/g was reset", "/groups/s/g"],
];

test("each event is a sentence with its cause, and a link to what it concerns", async () => {
  answer({ "GET /api/v1/events/": { results: EVENTS.map(([one]) => one), next: null } });
  const { container } = await mount(() => <EventList limit={20} about={{ broker_group: "g1" }} />);
  await screen.findByText(/failed over/);
  const lines = [...container.querySelectorAll("[data-event]")];
  const sentences = lines.map((line) => line.querySelector(".break")?.textContent);
  expect(sentences).toEqual(EVENTS.map(([, text]) => text));
  expect(lines.map((line) => line.querySelector("a")?.getAttribute("href") ?? null)).toEqual(
    EVENTS.map(([, , link]) => link),
  );
});

test("the same in Chinese, the causes of nodes included", async () => {
  answer({ "GET /api/v1/events/": { results: EVENTS.slice(0, 4).map(([one]) => one), next: null } });
  await mount(() => <EventList />);
  await loadTexts(NAMESPACES);
  await setLanguage("zh");
  await screen.findByText(/故障切换：主节点由 g1-a 变为 g1-b：/);
  await screen.findByText(/0\.75 秒内没有响应/);
  expect(screen.queryByText(/heartbeat|response/)).toBeNull();
  await setLanguage("en");
});

test("without events it says so", async () => {
  const { asked } = answer({ "GET /api/v1/events/": { results: [], next: null } });
  await mount(() => <EventList limit={7} kind={["failover"]} />);
  await screen.findByText("No events.");
  expect(asked[0]?.url.search).toBe("?kind=failover&limit=7");
});

test("a page's part asks for the newest events of what the page is about, and leads to all of them", async () => {
  const { asked } = answer({ "GET /api/v1/events/": { results: [], next: null } });
  await mount(() => <RecentEvents subject="orders" group="billing" />);
  await screen.findByText("No events.");
  expect(asked.map(({ url }) => url.search)).toEqual(["?subject=orders&group=billing&limit=5"]);
  expect(screen.getByRole("link", { name: "All events" })).toHaveAttribute(
    "href",
    "/events?subject=orders&group=billing",
  );
});
