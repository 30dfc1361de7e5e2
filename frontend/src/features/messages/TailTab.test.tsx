import { act, screen } from "@testing-library/react";
import userEvent from "@testing-library/user-event";
import { beforeEach, expect, test, vi } from "vitest";
import TailTab from "@/features/messages/TailTab";
import { answer, mount } from "@/test/mount";

class FakeSocket {
  static all: FakeSocket[] = [];
  onmessage: ((event: MessageEvent) => void) | null = null;
  onclose: ((event: CloseEvent) => void) | null = null;
  constructor(readonly url: string) {
    FakeSocket.all.push(this);
  }
  close() {
    return;
  }
  say(message: object) {
    act(() => this.onmessage?.(new MessageEvent("message", { data: JSON.stringify(message) })));
  }
}

const message = (sequence: number, region: string) => ({
  broker_group: "g1",
  sequence: String(sequence),
  message_id: `id-${sequence}`,
  stored_at: "2026-01-01T00:00:00Z",
  tags: [],
  properties: { region },
  masked_values: [],
  decoding: null,
  bytes: 10,
  is_cut: false,
  reason: null,
});

beforeEach(() => {
  FakeSocket.all = [];
  vi.stubGlobal("WebSocket", FakeSocket);
  answer({});
});

test("rows arrive and stand still while paused; nodes filter them", async () => {
  const page = await mount(() => <TailTab subject="order.paid" />, "/subjects/order.paid");
  const [socket] = FakeSocket.all;
  if (!socket) throw new Error("nothing was connected");
  expect(socket.url).toContain("/ws/tail/?subject=order.paid");
  socket.say({ type: "snapshot", version: 0, subject: "order.paid", unknown: {} });
  expect(await screen.findByText("Live")).toBeInTheDocument();
  socket.say({ type: "delta", version: 1, messages: [message(1, "eu"), message(2, "us")], left_out: 3, unknown: {} });
  expect(screen.getByText(/2 of 2 received messages shown · 3 messages were not shown/)).toBeInTheDocument();

  await userEvent.click(screen.getByRole("button", { name: "Pause" }));
  socket.say({ type: "delta", version: 2, messages: [message(3, "eu")], left_out: 0, unknown: { g2: "away" } });
  expect(screen.getByText("1 buffered")).toBeInTheDocument();
  expect(screen.queryByText("id-3")).not.toBeInTheDocument();
  expect(screen.getByText(/away/)).toBeInTheDocument();
  await userEvent.click(screen.getByRole("button", { name: "Resume" }));
  expect(screen.getByText("id-3")).toBeInTheDocument();

  await userEvent.type(screen.getByLabelText("Filter"), "region=us{Enter}");
  expect(page.address()).toContain("filter=region%3Dus");
  expect(FakeSocket.all.at(-1)?.url).toContain("subject=order.paid&filter=region%3Dus");
  expect(screen.queryByText("id-3")).not.toBeInTheDocument();
});

test("a filter that nodes refuse says why", async () => {
  await mount(() => <TailTab subject="order.paid" />, "/subjects/order.paid?filter=a%20%26%26");
  const [socket] = FakeSocket.all;
  act(() => socket?.onclose?.(new CloseEvent("close", { code: 4400, reason: "line 1, column 5: it ends too early" })));
  expect(await screen.findByText("line 1, column 5: it ends too early")).toBeInTheDocument();
});
