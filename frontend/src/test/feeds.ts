import { act } from "@testing-library/react";
import { vi } from "vitest";

interface Feed {
  path: string;
  say: (message: object) => void;
  /** The server closes it. */
  end: (code: number) => void;
}

/** Live feeds that a page opens from now on, which a test speaks for. */
export function fakeFeeds(): Feed[] {
  const opened: Feed[] = [];
  vi.stubGlobal(
    "WebSocket",
    class {
      onmessage: ((event: { data: string }) => void) | null = null;
      onclose: ((event: { code: number; reason: string }) => void) | null = null;
      constructor(url: string) {
        const { pathname, search } = new URL(url);
        opened.push({
          path: pathname + search,
          say: (message) => act(() => this.onmessage?.({ data: JSON.stringify(message) })),
          end: (code) => act(() => this.onclose?.({ code, reason: "" })),
        });
      }
      close() {
        return;
      }
      send() {
        return;
      }
    },
  );
  return opened;
}

/** A feed's first message. */
export const snapshot = (state: object) => ({
  type: "snapshot",
  stream: "s",
  version: 1,
  at: "2026-11-21T10:00:00Z",
  state,
});
