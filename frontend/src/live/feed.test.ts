import { beforeEach, expect, test, vi } from "vitest";
import { onSignedOut } from "@/api/signedOut";
import {
  Connection,
  LiveFeed,
  PING_MS,
  RECONNECT_LONGEST_MS,
  SILENT_MS,
  type FeedMessage,
  type LiveStatus,
} from "@/live/feed";

class FakeSocket {
  onmessage: ((event: MessageEvent) => void) | null = null;
  onclose: ((event: CloseEvent) => void) | null = null;
  constructor(readonly url: string) {
    world.sockets.push(this);
  }
  send(text: string) {
    world.sent.push(text);
  }
  close() {
    return;
  }
}

class FakeWorld {
  sockets: FakeSocket[] = [];
  sent: string[] = [];
  get socket(): FakeSocket {
    const socket = this.sockets.at(-1);
    if (!socket) throw new Error("nothing was connected");
    return socket;
  }
  say(message: unknown) {
    this.socket.onmessage?.(new MessageEvent("message", { data: JSON.stringify(message) }));
  }
  hangUp(code: number, reason = "") {
    this.socket.onclose?.(new CloseEvent("close", { code, reason }));
  }
}

let world: FakeWorld;
beforeEach(() => {
  world = new FakeWorld();
  vi.stubGlobal("WebSocket", FakeSocket);
  vi.useFakeTimers({ now: 0 });
  vi.spyOn(Math, "random").mockReturnValue(1);
});

test("a snapshot and its deltas make the state; the status is live", () => {
  const feed = new LiveFeed("/ws/lag/");
  feed.subscribe(() => undefined);
  expect(feed.get().status.kind).toBe("connecting");
  world.say({ type: "snapshot", at: "2026-01-01T00:00:00Z", state: { groups: { a: { lag: 1 } } } });
  world.say({ type: "delta", at: "2026-01-01T00:00:01Z", delta: { groups: { gone: [], set: { a: { lag: 2 } } } } });
  expect(feed.get()).toEqual({
    status: { kind: "live" },
    at: "2026-01-01T00:00:01Z",
    state: { groups: { a: { lag: 2 } } },
  });
});

test("stale keeps what is shown and says since when", () => {
  const feed = new LiveFeed("/ws/lag/");
  feed.subscribe(() => undefined);
  world.say({ type: "snapshot", at: "t", state: { groups: {} } });
  world.say({ type: "stale", since: "t0", reason: "no beat" });
  expect(feed.get().status).toEqual({ kind: "stale", since: "t0", reason: "no beat" });
  world.say({ type: "fresh" });
  expect(feed.get().status.kind).toBe("live");
});

test("a lost connection comes back by itself, later each time, never later than the longest", () => {
  const seen: LiveStatus[] = [];
  new Connection(
    "ws://x/",
    () => undefined,
    (status) => seen.push(status),
  );
  for (let lost = 0; lost < 12; lost += 1) {
    world.hangUp(1006);
    const before = world.sockets.length;
    vi.advanceTimersByTime(RECONNECT_LONGEST_MS);
    expect(world.sockets.length).toBeGreaterThan(before);
  }
  expect(seen.every((status) => status.kind === "reconnecting" && status.since === new Date(0).toISOString())).toBe(
    true,
  );
});

test("a silent connection counts as lost", () => {
  const seen: LiveStatus[] = [];
  new Connection(
    "ws://x/",
    () => undefined,
    (status) => seen.push(status),
  );
  world.say({ type: "snapshot" });
  vi.advanceTimersByTime(SILENT_MS);
  expect(seen.map(({ kind }) => kind)).toEqual(["live", "reconnecting"]);
});

test("a quiet connection is asked for a word, and lives on when it answers", () => {
  const heard: FeedMessage[] = [];
  const seen: LiveStatus[] = [];
  new Connection(
    "ws://x/",
    (message) => heard.push(message),
    (status) => seen.push(status),
  );
  vi.advanceTimersByTime(PING_MS);
  expect(world.sent).toEqual([]);
  world.say({ type: "snapshot" });
  for (let round = 1; round <= 5; round += 1) {
    vi.advanceTimersByTime(PING_MS);
    expect(world.sent).toHaveLength(round);
    world.say({ type: "pong" });
  }
  expect(world.sent[0]).toBe('{"type":"ping"}');
  expect(seen.map(({ kind }) => kind)).toEqual(["live"]);
  expect(heard.map(({ type }) => type)).toEqual(["snapshot"]);
});

test.each([
  [4403, "no right"],
  [4400, "show names 201 rows; the limit is 200"],
])("a refusal is final: %i", (code, reason) => {
  const seen: LiveStatus[] = [];
  new Connection(
    "ws://x/",
    () => undefined,
    (status) => seen.push(status),
  );
  world.hangUp(code, reason);
  vi.advanceTimersByTime(600_000);
  expect(seen).toEqual([{ kind: "refused", code, reason }]);
  expect(world.sockets).toHaveLength(1);
});

test.each([
  [4401, 401, 1],
  [4401, 200, 0],
  [4403, 401, 0],
])("closed with %i, and the session's answer is %i: signed out %i times", async (code, status, times) => {
  const told = vi.fn();
  const forget = onSignedOut(told);
  const asked = vi.fn(() => Promise.resolve(new Response("{}", { status })));
  vi.stubGlobal("fetch", asked);
  new LiveFeed("/ws/lag/").subscribe(() => undefined);
  world.say({ type: "snapshot", at: "t", state: { groups: {} } });
  world.hangUp(code, "the session has ended");
  await vi.advanceTimersByTimeAsync(600_000);
  forget();
  expect(asked).toHaveBeenCalledTimes(code === 4401 ? 1 : 0);
  expect(told).toHaveBeenCalledTimes(times);
});

test("nobody looks: nothing stays open", () => {
  const feed = new LiveFeed("/ws/lag/");
  const leave = feed.subscribe(() => undefined);
  leave();
  vi.advanceTimersByTime(600_000);
  expect(world.sockets).toHaveLength(1);
  expect(vi.getTimerCount()).toBe(0);
});
