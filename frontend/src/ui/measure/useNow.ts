import { useSyncExternalStore } from "react";

const TICK_MS = 1_000;

// One timer for the whole page, while it has listeners.
const listeners = new Set<() => void>();
let timer: number | undefined;
let now = Date.now();

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  if (timer === undefined) {
    now = Date.now();
    timer = window.setInterval(() => {
      now = Date.now();
      for (const each of listeners) each();
    }, TICK_MS);
  }
  return () => {
    listeners.delete(listener);
    if (listeners.size > 0) return;
    window.clearInterval(timer);
    timer = undefined;
  };
}

function still(): () => void {
  return () => undefined;
}

/** The begin of the present step (an hour, say): the component is drawn again only when the next one begins. */
export function useNowBy(stepMs: number): number {
  return useSyncExternalStore(subscribe, () => Math.floor(now / stepMs) * stepMs);
}

/** The time now in ms since 1970, kept true each second; with `isRunning` false only as of some render. */
export function useNow(isRunning = true): number {
  return useSyncExternalStore(isRunning ? subscribe : still, () => now);
}

/** A text or number that is worked out of the time now: drawn again only when it changes, not each second. */
export function useOfNow<Part extends string | number | null>(of: (now: number) => Part, isRunning = true): Part {
  return useSyncExternalStore(isRunning ? subscribe : still, () => of(now));
}
