import { useCallback, useEffect, useRef, useState } from "react";

/** One bounded piece of long work: what it found, and how to go on; `next` is null at the end. */
export interface Step<Found> {
  found: readonly Found[];
  next: string | null;
  /** How much was looked at in this piece, for the progress line. */
  done: number;
}

export interface Steps<Found> {
  found: readonly Found[];
  done: number;
  state: "idle" | "running" | "finished" | "cancelled" | "full" | "failed";
  error: unknown;
  start: () => void;
  cancel: () => void;
  /** On from where it stopped: after "cancelled", "full" or an error. */
  resume: () => void;
  reset: () => void;
}

/**
 * Long work in bounded requests, one after the other, until the end, until it found `foundMax` more, or until it is cancelled. Leaving
 * the page cancels it.
 */
export function useSteps<Found>(
  step: (cursor: string | undefined, signal: AbortSignal) => Promise<Step<Found>>,
  foundMax = 1_000,
): Steps<Found> {
  const [view, setView] = useState<Omit<Steps<Found>, "start" | "cancel" | "resume" | "reset">>({
    found: [],
    done: 0,
    state: "idle",
    error: null,
  });
  const running = useRef<AbortController | null>(null);
  const at = useRef<string | undefined>(undefined);
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
      setView({ found, done, state: "running", error: null });
      try {
        for (;;) {
          const piece = await latest.current(cursor, signal);
          if (signal.aborted) return;
          found = [...found, ...piece.found];
          done += piece.done;
          cursor = piece.next ?? undefined;
          at.current = cursor;
          if (cursor === undefined) {
            setView({ found, done, state: "finished", error: null });
            return;
          }
          const isFull = found.length >= fullAt;
          setView({ found, done, state: isFull ? "full" : "running", error: null });
          if (isFull) return;
        }
      } catch (error) {
        if (!signal.aborted) setView({ found, done, state: "failed", error });
      }
    },
    [foundMax],
  );
  const start = useCallback(() => {
    at.current = undefined;
    void go(undefined, [], 0);
  }, [go]);
  const cancel = useCallback(() => {
    running.current?.abort();
    setView((before) => (before.state === "running" ? { ...before, state: "cancelled" } : before));
  }, []);
  const resume = useCallback(() => void go(at.current, view.found, view.done), [go, view]);
  const reset = useCallback(() => {
    running.current?.abort();
    at.current = undefined;
    setView({ found: [], done: 0, state: "idle", error: null });
  }, []);
  return { ...view, start, cancel, resume, reset };
}
