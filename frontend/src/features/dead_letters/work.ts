import { api, must, type Schema } from "@/api/client";
import { toRequest, type Edit } from "@/features/dead_letters/edit";
import type { Progress } from "@/features/dead_letters/queries";
import { placeOf } from "@/ui/message/place";

/** Replaying and deleting dead letters: what is chosen, the requests piece by piece, and the sums of the pieces. */

export type Action = "replay" | "delete";

/** Dead letters by their key `main:17`, or all of the consumer group. */
export type Chosen = { kind: "some"; keys: readonly string[] } | { kind: "all" };

export interface Order {
  subject: string;
  group: string;
  action: Action;
  chosen: Chosen;
  /** Of a replay: who gets the copies. */
  to: "group" | "subject" | "other";
  /** Of a replay to another subject: which. */
  otherSubject: string;
  /** Of a replay of one dead letter: what its copy says instead; null: the same. */
  edit: Edit | null;
  /** Of a replay: also what was replayed or deleted before. */
  isForced: boolean;
  reason: string;
}

/** Dead letters that one request decides about: few enough that progress is seen and stopping is quick. */
export const PIECE = 200;
/** Failures that are shown; all are counted. */
export const FAILURES_MAX = 100;

export type Sums = Pick<
  Progress,
  "looked_at" | "done" | "already" | "under_way" | "unknown" | "failed" | "failures" | "unreachable"
>;

export const NO_SUMS: Sums = {
  looked_at: 0,
  done: 0,
  already: 0,
  under_way: 0,
  unknown: 0,
  failed: 0,
  failures: [],
  unreachable: {},
};

export function summed(sums: Sums, piece: Sums): Sums {
  return {
    looked_at: sums.looked_at + piece.looked_at,
    done: sums.done + piece.done,
    already: sums.already + piece.already,
    under_way: sums.under_way + piece.under_way,
    unknown: sums.unknown + piece.unknown,
    failed: sums.failed + piece.failed,
    failures: [...sums.failures, ...piece.failures].slice(0, FAILURES_MAX),
    unreachable: { ...sums.unreachable, ...piece.unreachable },
  };
}

/** The chosen dead letters as the API names them: sequences by broker group, `size` a request. */
export function piecesOf(keys: readonly string[], size: number = PIECE): Record<string, string[]>[] {
  const pieces: Record<string, string[]>[] = [];
  for (let at = 0; at < keys.length; at += size) {
    const piece: Record<string, string[]> = {};
    for (const key of keys.slice(at, at + size)) {
      const { brokerGroup, sequence } = placeOf(key);
      (piece[brokerGroup] ??= []).push(sequence);
    }
    pieces.push(piece);
  }
  return pieces;
}

/**
 * One bounded request of an order, or of its dry run; `next` of its answer continues it. `expected`, of all: how many
 * the same request of the dry run counted; with another number nothing is done.
 */
export async function ask(
  order: Order,
  cursor: string | undefined,
  dryRun: boolean,
  expected?: number,
): Promise<Progress> {
  const { subject, group, chosen } = order;
  const pieces = chosen.kind === "some" ? piecesOf(chosen.keys) : null;
  const number = Number(cursor ?? 0);
  const which: Schema<"SelectionRequest"> = pieces
    ? // Sequences may be past 2^53, so they stay texts of digits.
      { sequences: pieces[number], limit: PIECE }
    : { all: true, limit: PIECE, cursor: cursor ?? null, expected };
  const params = { path: { subject, group }, query: { dry_run: dryRun } };
  const body = { ...which, ...(order.reason ? { reason: order.reason } : {}) };
  const answer =
    order.action === "delete"
      ? await must(api.POST("/api/v1/dead-letters/{subject}/{group}/delete/", { params, body }))
      : await must(
          api.POST("/api/v1/dead-letters/{subject}/{group}/replay/", {
            params,
            body: {
              ...body,
              to: order.to,
              force: order.isForced,
              ...(order.to === "other" ? { other_subject: order.otherSubject.trim() } : {}),
              ...(order.edit ? { edit: toRequest(order.edit) } : {}),
            },
          }),
        );
  if (!pieces) return answer;
  // A request that ended early left some of its dead letters: it is sent again, and skips what is decided.
  const next = answer.stopped === null ? number + 1 : number;
  return { ...answer, next: next < pieces.length ? String(next) : null };
}
