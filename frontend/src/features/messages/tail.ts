import type { Message } from "@/features/messages/queries";
import type { FeedMessage } from "@/live/feed";
import { placeKey } from "@/ui/message/place";

/** Messages of a subject as they arrive, as /ws/tail/ sends them (docs/live.md). Pure. */

export interface TailMessage extends Pick<
  Message,
  "broker_group" | "sequence" | "message_id" | "stored_at" | "tags" | "masked_values" | "decoding"
> {
  properties: Record<string, string>;
  bytes: number;
  is_cut: boolean;
  /** Why it can't be read; null: it can. */
  reason: string | null;
}

/** A line of the tail: a message, or a place where the connection was lost and messages may be missing. */
export type TailRow = { kind: "message"; message: TailMessage } | { kind: "gap"; number: number };

export interface TailView {
  /** Newest first. */
  rows: readonly TailRow[];
  /** What came while it is paused, newest first. */
  waiting: readonly TailRow[];
  isPaused: boolean;
  /** Messages that arrived and were sent to the page. */
  arrived: number;
  /** Messages that arrived and were not sent to it: more came than a tail shows. */
  leftOut: number;
  /** Nodes that could not be asked, and why. */
  unknown: Readonly<Record<string, string>>;
  /** How often it was connected. */
  begun: number;
}

export const NO_TAIL: TailView = {
  rows: [],
  waiting: [],
  isPaused: false,
  arrived: 0,
  leftOut: 0,
  unknown: {},
  begun: 0,
};

/** Rows that are kept, at most; older ones go. */
export const KEPT = ["100", "200", "500", "1000"] as const;

export type TailStep =
  | { kind: "begin" }
  | { kind: "heard"; message: FeedMessage; keep: number }
  | { kind: "pause" }
  | { kind: "resume"; keep: number }
  | { kind: "clear" };

function joined(view: TailView, fresh: readonly TailRow[], keep: number): TailView {
  return view.isPaused
    ? { ...view, waiting: [...fresh, ...view.waiting].slice(0, keep) }
    : { ...view, rows: [...fresh, ...view.rows].slice(0, keep) };
}

export function tailAfter(view: TailView, step: TailStep): TailView {
  switch (step.kind) {
    case "begin":
      return NO_TAIL;
    case "pause":
      return { ...view, isPaused: true };
    case "resume":
      return { ...view, isPaused: false, rows: [...view.waiting, ...view.rows].slice(0, step.keep), waiting: [] };
    case "clear":
      return { ...view, rows: [], waiting: [], arrived: 0, leftOut: 0 };
    case "heard":
      return received(view, step.message, step.keep);
  }
}

function received(view: TailView, message: FeedMessage, keep: number): TailView {
  const unknown = (message.unknown ?? {}) as TailView["unknown"];
  if (message.type === "snapshot") {
    const next = { ...view, unknown, begun: view.begun + 1 };
    return view.begun === 0 ? next : joined(next, [{ kind: "gap", number: view.begun }], keep);
  }
  if (message.type !== "delta") return view;
  const messages = message.messages as readonly TailMessage[];
  const next = {
    ...view,
    unknown,
    arrived: view.arrived + messages.length,
    leftOut: view.leftOut + (message.left_out as number),
  };
  return joined(next, messages.map((one): TailRow => ({ kind: "message", message: one })).reverse(), keep);
}

export function rowKey(row: TailRow): string {
  return row.kind === "gap" ? `gap ${row.number}` : placeKey(row.message);
}
