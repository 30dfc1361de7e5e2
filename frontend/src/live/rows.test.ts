import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { RowFeed, ROWS_MAX, SHOW_MS } from "@/live/rows";

class FakeSocket {
  static readonly OPEN = 1;
  readyState = 0;
  onopen: (() => void) | null = null;
  onmessage: ((event: MessageEvent) => void) | null = null;
  onclose: ((event: CloseEvent) => void) | null = null;
  sent: string[] = [];
  constructor(readonly url: string) {
    sockets.push(this);
  }
  send(text: string) {
    this.sent.push(text);
  }
  close() {
    return;
  }
  open() {
    this.readyState = FakeSocket.OPEN;
    this.onopen?.();
  }
  say(message: unknown) {
    this.onmessage?.(new MessageEvent("message", { data: JSON.stringify(message) }));
  }
  get shown(): { subjects: string[]; groups: string[] }[] {
    return this.sent.map((text) => {
      const { type, ...rows } = JSON.parse(text) as { type: string; subjects: string[]; groups: string[] };
      expect(type).toBe("show");
      return rows;
    });
  }
}

let sockets: FakeSocket[];
beforeEach(() => {
  sockets = [];
  vi.stubGlobal("WebSocket", FakeSocket);
  vi.useFakeTimers({ now: 0 });
});
afterEach(() => vi.useRealTimers());

function opened(feed: RowFeed): FakeSocket {
  feed.subscribe(() => undefined);
  const socket = sockets.at(-1);
  if (!socket) throw new Error("nothing was connected");
  socket.open();
  return socket;
}

test("rows are named together, and again only when others are shown", () => {
  const feed = new RowFeed();
  const socket = opened(feed);
  expect(socket.shown).toEqual([{ subjects: [], groups: [] }]);
  const leave = feed.subscribeTo("subjects", "orders", () => undefined);
  feed.subscribeTo("subjects", "orders", () => undefined);
  feed.subscribeTo("groups", "orders\nbilling", () => undefined);
  expect(socket.sent).toHaveLength(1);
  vi.advanceTimersByTime(SHOW_MS);
  expect(socket.shown.slice(1)).toEqual([{ subjects: ["orders"], groups: ["orders\nbilling"] }]);
  leave();
  vi.advanceTimersByTime(SHOW_MS);
  expect(socket.sent).toHaveLength(2);
});

test("a row that no cell shows any more is not named", () => {
  const feed = new RowFeed();
  const socket = opened(feed);
  const leave = feed.subscribeTo("subjects", "orders", () => undefined);
  feed.subscribeTo("subjects", "parts", () => undefined);
  vi.advanceTimersByTime(SHOW_MS);
  leave();
  vi.advanceTimersByTime(SHOW_MS);
  expect(socket.shown.at(-1)).toEqual({ subjects: ["parts"], groups: [] });
  expect(sockets).toHaveLength(1);
});

test("of more rows than the server accepts those that were drawn last", () => {
  const feed = new RowFeed();
  const socket = opened(feed);
  for (let row = 0; row < ROWS_MAX + 10; row += 1) feed.subscribeTo("subjects", `s${String(row)}`, () => undefined);
  vi.advanceTimersByTime(SHOW_MS);
  expect(socket.shown.at(-1)?.subjects).toHaveLength(ROWS_MAX);
  expect(socket.shown.at(-1)?.subjects).toContain(`s${String(ROWS_MAX + 9)}`);
  for (let row = 0; row < ROWS_MAX; row += 1) {
    feed.subscribeTo("groups", `${"名".repeat(100)}\n${"组".repeat(200)}${String(row)}`, () => undefined);
  }
  vi.advanceTimersByTime(SHOW_MS);
  expect(new TextEncoder().encode(socket.sent.at(-1)).length).toBeLessThanOrEqual(60_000);
  expect(socket.shown.at(-1)?.groups.length).toBeGreaterThan(50);
});

test("a new connection is sent the rows again; what is shown stays until it answers", () => {
  const feed = new RowFeed();
  const first = opened(feed);
  feed.subscribeTo("subjects", "orders", () => undefined);
  vi.advanceTimersByTime(SHOW_MS);
  first.say({ type: "snapshot", at: "t1", state: { subjects: { orders: { send_rate: 1 } }, groups: {} } });
  first.onclose?.(new CloseEvent("close", { code: 1006 }));
  vi.advanceTimersByTime(1_000);
  expect(sockets).toHaveLength(2);
  sockets[1]?.open();
  expect(sockets[1]?.shown).toEqual([{ subjects: ["orders"], groups: [] }]);
  expect(feed.get().state.subjects).toEqual({ orders: { send_rate: 1 } });
});
