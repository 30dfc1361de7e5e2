import { screen, waitFor, within } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import BrokerPage from "@/features/brokers/BrokerPage";
import { replicatedGroup, stopEffect } from "@/features/brokers/samples.testing";
import type { StopEffect } from "@/features/brokers/stop/queries";
import { setLanguage } from "@/i18n";
import { me } from "@/test/me";
import { answer, mount } from "@/test/mount";

beforeEach(() => {
  vi.stubGlobal(
    "WebSocket",
    class {
      close() {
        return;
      }
    },
  );
});

afterEach(() => setLanguage("en"));

/** The page of a group with two members, and what stopping each would mean. */
async function opened(a: StopEffect, b: StopEffect, query = "") {
  const group = replicatedGroup("g1", { kind: a.kind });
  answer({
    "GET /api/v1/me/": me({ username: "vera", role: "viewer", rights: ["read"], teams: [] }),
    "GET /api/v1/broker-groups/g1/": () => Response.json(group, { headers: { ETag: '"v7"' } }),
    "GET /api/v1/history/": { at: [], fields: {}, reason: "nothing of it was measured", step_seconds: 10 },
    "GET /api/v1/subjects/": { results: [], next: null, previous: null },
    "GET /api/v1/nodes/g1-a/may-stop/": a,
    "GET /api/v1/nodes/g1-b/may-stop/": b,
  });
  return mount(BrokerPage, `/brokers/g1${query}`, "/brokers/$name");
}

const SLAVE = stopEffect("g1-b", {
  is_master: false,
  may_stop: true,
  reasons: [],
  why: [],
  next_master: "g1-a",
  rejects_sends: false,
  in_sync_left: 2,
});

async function row(node: string) {
  const found = await waitFor(() => {
    const element = document.querySelector<HTMLElement>(`[data-row="${node}"] [data-stop]`);
    expect(element).not.toBeNull();
    return element;
  });
  return found as HTMLElement;
}

test("each member says whether it may stop and what happens then; the dialog has the rest", async () => {
  const page = await opened(stopEffect("g1-a"), SLAVE);
  expect(await row("g1-a")).toHaveTextContent("don't stop nowg1-b takes over. Sends are rejected until it is back.");
  expect(await row("g1-b")).toHaveTextContent("may stopg1-a continues to serve. 2 copies are left.");
  await userEvent.click(within(await row("g1-a")).getByRole("link"));
  const dialog = within(await screen.findByRole("dialog", { name: "What if g1-a stops?" }));
  expect(page.address()).toBe("/brokers/g1?stop=g1-a");
  const alert = await dialog.findByRole("alert");
  expect(alert).toHaveTextContent("broker group g1 would have 1 in-sync members, below its minimum of 2");
  const fact = (name: string) => dialog.getByRole("row", { name: new RegExp(name) });
  expect(fact("Master then")).toHaveTextContent("g1-b takes over");
  expect(fact("Sends")).toHaveTextContent("rejected until the node is back");
  expect(fact("Copies in sync then")).toHaveTextContent("1 (minimum 2)");
  expect(fact("Subjects")).toHaveTextContent("42");
  expect(fact("Only on this group")).toHaveTextContent("3");
  expect(fact("Consumer groups")).toHaveTextContent("31");
  expect(fact("Sent/s")).toHaveTextContent("21");
  expect(dialog.getByRole("link", { name: "Rehearse" })).toHaveAttribute("href", "/brokers?rehearse=node%3Ag1-a");
  await userEvent.click(dialog.getByRole("button", { name: "Close" }));
  await waitFor(() => expect(page.address()).toBe("/brokers/g1"));
});

test("a delay group without another node that could lead is late, and unknown numbers are no zeros", async () => {
  const alone = stopEffect("g1-a", {
    kind: "delay",
    next_master: "",
    in_sync_left: 0,
    pending: null,
    delivered_per_second: 2,
    unmeasured_reason: "the collector is away",
  });
  await opened(alone, { ...SLAVE, kind: "delay" }, "?stop=g1-a");
  expect(await row("g1-a")).toHaveTextContent("Delayed messages of the group are late until it is back.");
  const dialog = within(await screen.findByRole("dialog"));
  const pending = await dialog.findByRole("row", { name: /Pending/ });
  expect(pending).not.toHaveTextContent("0");
  expect(dialog.getByRole("row", { name: /Master then/ })).toHaveTextContent("none: the group is unavailable");
  expect(dialog.queryByRole("row", { name: /Subjects/ })).toBeNull();
  expect(dialog.queryByRole("link", { name: "Rehearse" })).toBeNull();
});

test("a spare changes nothing, in Chinese too", async () => {
  const spare = { ...SLAVE, is_member: false };
  await opened(stopEffect("g1-a"), spare, "?stop=g1-b");
  expect(await row("g1-b")).toHaveTextContent("Nothing changes: it is a spare.");
  const dialog = within(await screen.findByRole("dialog"));
  expect(await dialog.findByText("It is a spare: stopping it changes nothing.")).toBeInTheDocument();
  await setLanguage("zh");
  expect(await dialog.findByText("它是备用节点：停止它没有影响。")).toBeInTheDocument();
});
