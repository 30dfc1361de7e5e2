import { act, screen } from "@testing-library/react";
import { beforeEach, expect, test, vi } from "vitest";
import SubjectPage from "@/features/subjects/SubjectPage";
import { answer, mount } from "@/test/mount";

let sockets: { onmessage: ((event: { data: string }) => void) | null }[] = [];

beforeEach(() => {
  sockets = [];
  vi.stubGlobal(
    "WebSocket",
    class {
      onmessage = null;
      constructor() {
        sockets.push(this);
      }
      close() {
        return;
      }
    },
  );
});

function snapshot(orders: object) {
  const message = { type: "snapshot", stream: "s", version: 1, at: "2026-11-21T10:00:00Z" };
  const state = { subjects: { orders: { subject: "orders", reason: null, ...orders } }, groups: {} };
  act(() => {
    for (const socket of sockets) socket.onmessage?.({ data: JSON.stringify({ ...message, state }) });
  });
}

test("messages that are lost to damage are counted, with links to the broker groups", async () => {
  answer({});
  await mount(SubjectPage, "/subjects/orders", "/subjects/$subject");
  await screen.findByRole("heading", { name: "orders" });
  expect(document.querySelector("[data-withheld]")).toBeNull();
  snapshot({ withheld: 1_234, withheld_on: ["g1", "g2"] });
  expect(await screen.findByText("1,234 messages withheld")).toBeVisible();
  expect(screen.getByText(/can't be delivered/)).toBeVisible();
  expect(screen.getByRole("link", { name: "g1" })).toHaveAttribute("href", "/brokers/g1");
  expect(screen.getByRole("link", { name: "g2" })).toHaveAttribute("href", "/brokers/g2");
});

test.each([
  ["none are withheld", { withheld: 0, withheld_on: [] }],
  ["their number is not measured", { withheld: null, withheld_on: ["g1"], reason: "no answer" }],
])("nothing is shown when %s", async (_, entry) => {
  answer({});
  await mount(SubjectPage, "/subjects/orders", "/subjects/$subject");
  await screen.findByRole("heading", { name: "orders" });
  snapshot(entry);
  expect(document.querySelector("[data-withheld]")).toBeNull();
});
