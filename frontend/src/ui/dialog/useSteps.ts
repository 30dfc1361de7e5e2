import { useCallback, useEffect, useRef, useState } from "react";

/** One bounded piece of long work: what it found, and how to continue; `next` is null at the end. */
export interface Step<Found> {
  found: readonly Found[];
  next: string | null;
  /** How much was processed in this piece, for the progress line. */
  done: number;
  /** Why the system ended this piece early, if it did. */
  stopped?: string | null;
}

interface View<Found> {
  found: readonly Found[];
  done: number;
  state: "idle" | "running" | "finished" | "cancelled" | "full" | "stopped" | "failed";
  /** Why the system stopped it. */
  why: string | null;
  error: unknown;
}

const IDLE = { found: [], done: 0, state: "idle", why: null, error: null } as const;

export interface Steps<Found> extends View<Found> {
  start: () => void;
  cancel: () => void;
  /** On from where it stopped: after "cancelled", "full", "stopped" or an error. */
  resume: () => void;
  reset: () => void;
}

/**
 * Long work in bounded requests, one after the other, until the end, until it found `foundMax` more, or until it is
 * cancelled. Leaving the page cancels it. `step` is called with the cursor and with how much was found before.
 * `isWhole`: a piece under way ends before the work is cancelled, so that what was done is known.
 */
export function useSteps<Found>(
  step: (cursor: string | undefined, signal: AbortSignal, found: number) => Promise<Step<Found>>,
  { foundMax = 1_000, isWhole = false } = {},
): Steps<Found> {
  const [view, setView] = useState<View<Found>>(IDLE);
  const running = useRef<AbortController | null>(null);
  const at = useRef<string | undefined>(undefined);
  const isCancelled = useRef(false);
  const latest = useRef(step);
  useEffect(() => {
    latest.current = step;
  });
  useEffect(() => () => running.current?.abort(), []);

  const go = useCallback(
    async (from: string | undefined, found: readonly Found[], done: number) => {
      running.current?.abort();
      const control = new AbortController();
      running.current = control;
      const { signal } = control;
      let cursor = from;
      const fullAt = found.length + foundMax;
      isCancelled.current = false;
      const report = (state: View<Found>["state"], why: string | null = null, error: unknown = null) =>
        setView({ found, done, state, why, error });
      report("running");
      try {
        for (;;) {
          const piece = await latest.current(cursor, signal, found.length);
          if (signal.aborted) return;
          found = [...found, ...piece.found];
          done += piece.done;
          cursor = piece.next ?? undefined;
          at.current = cursor;
          const why = piece.stopped ?? null;
          const ended = endOf(why, cursor, isCancelled, found.length >= fullAt);
          report(ended ?? "running", why);
          if (ended) return;
        }
      } catch (error) {
        if (!signal.aborted) report("failed", null, error);
      }
    },
    [foundMax],
  );
  const start = useCallback(() => {
    at.current = undefined;
    void go(undefined, [], 0);
  }, [go]);
  const cancel = useCallback(() => {
    isCancelled.current = true;
    if (isWhole) return;
    running.current?.abort();
    setView((before) => (before.state === "running" ? { ...before, state: "cancelled" } : before));
  }, [isWhole]);
  const resume = useCallback(() => void go(at.current, view.found, view.done), [go, view]);
  const reset = useCallback(() => {
    running.current?.abort();
    at.current = undefined;
    setView(IDLE);
  }, []);
  return { ...view, start, cancel, resume, reset };
}

/** How a piece ended the work; null: it did not. */
function endOf(why: string | null, next: string | undefined, isCancelled: { current: boolean }, isFull: boolean) {
  if (why !== null) return "stopped";
  if (next === undefined) return "finished";
  if (isCancelled.current) return "cancelled";
  return isFull ? "full" : null;
}

/** A step of `useSteps` that does the same with each of some items, `atOnce` at a time. */
export function eachOf<Item, Found>(
  items: readonly Item[],
  one: (item: Item, signal: AbortSignal) => Promise<Found>,
  atOnce = 1,
) {
  return async (cursor: string | undefined, signal: AbortSignal): Promise<Step<Found>> => {
    const from = Number(cursor ?? 0);
    const next = from + atOnce;
    const found = await Promise.all(items.slice(from, next).map((item) => one(item, signal)));
    return { found, done: found.length, next: next < items.length ? String(next) : null };
  };
}
