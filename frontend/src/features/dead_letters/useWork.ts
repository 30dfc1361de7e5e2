import { useCallback, useEffect, useRef, useState } from "react";
import { ask, NO_SUMS, summed, type Order, type Sums } from "@/features/dead_letters/work";

export interface WorkView {
  sums: Sums;
  state: "idle" | "running" | "finished" | "cancelled" | "stopped" | "failed";
  /** Why the system ended a piece early. */
  why: string | null;
  error: unknown;
}

export interface Work extends WorkView {
  start: (order: Order) => void;
  /** No piece is begun any more; the one under way ends first, so that what was done is known. */
  cancel: () => void;
  /** On from where it ended: after a stop, a cancel or an error. */
  resume: () => void;
  reset: () => void;
}

const IDLE: WorkView = { sums: NO_SUMS, state: "idle", why: null, error: null };

/** An order, or its dry run, piece by piece. Leaving the page ends it after the piece under way. */
export function useWork(dryRun: boolean): Work {
  const [view, setView] = useState(IDLE);
  const cursor = useRef<string | undefined>(undefined);
  const latest = useRef<{ order: Order; sums: Sums } | null>(null);
  // Each run has a number: what an earlier one still hears does not count.
  const run = useRef(0);
  const isCancelled = useRef(false);
  useEffect(
    () => () => {
      run.current += 1;
    },
    [],
  );
  const go = useCallback(
    async (order: Order, from: Sums) => {
      run.current += 1;
      const mine = run.current;
      isCancelled.current = false;
      const wasCancelled = () => isCancelled.current;
      let sums = from;
      const report = (state: WorkView["state"], why: string | null = null, error: unknown = null) => {
        latest.current = { order, sums };
        setView({ sums, state, why, error });
      };
      report("running");
      for (;;) {
        let answer;
        try {
          answer = await ask(order, cursor.current, dryRun);
        } catch (error) {
          if (mine === run.current) report("failed", null, error);
          return;
        }
        if (mine !== run.current) return;
        sums = summed(sums, answer);
        cursor.current = answer.next ?? undefined;
        const ended =
          answer.stopped !== null ? "stopped" : answer.next === null ? "finished" : wasCancelled() ? "cancelled" : null;
        report(ended ?? "running", answer.stopped);
        if (ended) return;
      }
    },
    [dryRun],
  );
  const start = useCallback(
    (order: Order) => {
      cursor.current = undefined;
      void go(order, NO_SUMS);
    },
    [go],
  );
  const cancel = useCallback(() => {
    isCancelled.current = true;
  }, []);
  const resume = useCallback(() => {
    if (latest.current) void go(latest.current.order, latest.current.sums);
  }, [go]);
  const reset = useCallback(() => {
    run.current += 1;
    cursor.current = undefined;
    latest.current = null;
    setView(IDLE);
  }, []);
  return { ...view, start, cancel, resume, reset };
}
