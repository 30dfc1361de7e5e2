import { checkSession } from "@/api/signedOut";
import { applyDelta, type Delta, type LiveState } from "@/live/applyDelta";

/** What a reader knows about a feed: docs/live.md. */
export type LiveStatus =
  | { kind: "connecting" }
  | { kind: "live" }
  /** Connected, but nothing new is measured: what is shown is of then. */
  | { kind: "stale"; since: string; reason: string }
  /** No connection; it is tried again by itself. */
  | { kind: "reconnecting"; since: string }
  /** The server will not have us, and trying again would not help. */
  | { kind: "refused"; code: number; reason: string };

export interface LiveView {
  status: LiveStatus;
  /** When the numbers were measured; null before the first snapshot. */
  at: string | null;
  state: LiveState;
}

/** A message of any websocket of the API; `snapshot`, `delta` and the rest as docs/live.md names them. */
export type FeedMessage = Readonly<Record<string, unknown>> & { type: string };

export const RECONNECT_FIRST_MS = 500;
export const RECONNECT_LONGEST_MS = 15_000;
/**
 * Without a word for so long the server is asked for one: most feeds beat each second, a tail is quiet while nothing
 * arrives.
 */
export const PING_MS = 4_000;
/** Without a word for so long the connection counts as dead. */
export const SILENT_MS = 8_000;

const NOT_SIGNED_IN = 4401;
const NO_USE_TO_TRY = new Set([4400, NOT_SIGNED_IN, 4403, 4404]);

/** The address of a websocket on the page's own host. */
export function socketUrl(path: string, location: Pick<Location, "protocol" | "host"> = window.location): string {
  return `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}${path}`;
}

/**
 * One websocket that reconnects by itself, with back-off and jitter, and reports its status.
 * `onMessage` gets every message but the ones about staleness.
 */
export class Connection {
  private socket: WebSocket | undefined;
  private timer: number | undefined;
  private silence: number | undefined;
  private ping: number | undefined;
  private tries = 0;
  private lostAt: string | undefined;
  private isClosed = false;

  constructor(
    private readonly url: string,
    private readonly onMessage: (message: FeedMessage) => void,
    private readonly onStatus: (status: LiveStatus) => void,
    private readonly onOpen?: () => void,
  ) {
    this.open();
  }

  /** Whether it was sent: it is not while there is no connection. */
  send(text: string): boolean {
    if (this.socket?.readyState !== WebSocket.OPEN) return false;
    this.socket.send(text);
    return true;
  }

  close(): void {
    this.isClosed = true;
    this.drop();
    window.clearTimeout(this.timer);
  }

  private open(): void {
    const socket = new WebSocket(this.url);
    this.socket = socket;
    this.watchSilence();
    socket.onmessage = ({ data }) => {
      this.watchSilence();
      this.ping = window.setTimeout(() => socket.send('{"type":"ping"}'), PING_MS);
      this.take(JSON.parse(String(data)) as FeedMessage);
    };
    socket.onopen = () => this.onOpen?.();
    socket.onclose = ({ code, reason }) => this.lost(code, reason);
  }

  private take(message: FeedMessage): void {
    switch (message.type) {
      case "stale":
        this.onStatus({ kind: "stale", since: String(message.since), reason: String(message.reason) });
        return;
      case "pong":
        return;
      case "fresh":
        this.onStatus({ kind: "live" });
        return;
      case "snapshot":
        this.tries = 0;
        this.lostAt = undefined;
        this.onMessage(message);
        this.onStatus({ kind: "live" });
        return;
      default:
        this.onMessage(message);
    }
  }

  private forgetTimers(): void {
    window.clearTimeout(this.silence);
    window.clearTimeout(this.ping);
  }

  private watchSilence(): void {
    this.forgetTimers();
    this.silence = window.setTimeout(() => this.lost(1006, ""), SILENT_MS);
  }

  private drop(): void {
    this.forgetTimers();
    const socket = this.socket;
    this.socket = undefined;
    if (!socket) return;
    socket.onopen = null;
    socket.onmessage = null;
    socket.onclose = null;
    socket.close();
  }

  private lost(code: number, reason: string): void {
    this.drop();
    if (this.isClosed) return;
    if (NO_USE_TO_TRY.has(code)) {
      if (code === NOT_SIGNED_IN) void checkSession();
      this.onStatus({ kind: "refused", code, reason });
      return;
    }
    this.lostAt ??= new Date().toISOString();
    this.onStatus({ kind: "reconnecting", since: this.lostAt });
    const longest = Math.min(RECONNECT_LONGEST_MS, RECONNECT_FIRST_MS * 2 ** this.tries);
    this.tries += 1;
    this.timer = window.setTimeout(() => this.open(), longest * (0.5 + Math.random() / 2));
  }
}

const NOTHING: LiveView = { status: { kind: "connecting" }, at: null, state: {} };

/** The state of one live address, shared by all its listeners; it is connected while there are any. */
export class LiveFeed {
  private view: LiveView = NOTHING;
  private connection: Connection | undefined;
  private readonly listeners = new Set<() => void>();

  constructor(private readonly path: string) {}

  readonly get = (): LiveView => this.view;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    this.connection ??= new Connection(
      socketUrl(this.path),
      (message) => this.take(message),
      (status) => this.set({ ...this.view, status }),
      () => this.opened(),
    );
    return () => {
      this.listeners.delete(listener);
      if (this.listeners.size > 0) return;
      this.connection?.close();
      this.connection = undefined;
      this.view = NOTHING;
    };
  };

  /** The same for what shows one entry. */
  subscribeTo(_section: string, _key: string, listener: () => void): () => void {
    return this.subscribe(listener);
  }

  protected send(text: string): boolean {
    return this.connection?.send(text) ?? false;
  }

  /** A connection was opened, again after one was lost. */
  protected opened(): void {
    return;
  }

  private take(message: FeedMessage): void {
    if (message.type === "snapshot") {
      this.set({ ...this.view, at: String(message.at), state: message.state as LiveState });
    } else if (message.type === "delta") {
      this.set({ ...this.view, at: String(message.at), state: applyDelta(this.view.state, message.delta as Delta) });
    }
    // After a `reset` a snapshot follows; until then what is shown stays.
  }

  private set(view: LiveView): void {
    this.view = view;
    for (const listener of this.listeners) listener();
  }
}
