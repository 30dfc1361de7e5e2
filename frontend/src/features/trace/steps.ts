import type { Link, Message, Standing } from "@/features/trace/queries";

/**
 * What happened to a message, step by step, with the time between. Nothing is guessed: an unknown instant stays
 * unknown. Pure.
 */

export type StepKind = "created" | "due" | "stored" | "pulled" | "acked" | "retry" | "dead";

export interface Step {
  kind: StepKind;
  /** null: it happened, when is not known. */
  at: string | null;
  /** Since the step before; null when either instant is unknown. */
  sinceSeconds: number | null;
  consumerId?: string | null;
  /** A later attempt: where it lies. */
  link?: Link;
}

/** The due time of a delayed message, in milliseconds as text. */
const DUE = "qmq_scheduleReceiveTime";

function seconds(from: string | null | undefined, to: string | null): number | null {
  return from && to ? (Date.parse(to) - Date.parse(from)) / 1000 : null;
}

function chained(steps: readonly Omit<Step, "sinceSeconds">[], before: string | null): Step[] {
  return steps.map((step, at) => ({
    ...step,
    sinceSeconds: seconds(at === 0 ? before : steps[at - 1]?.at, step.at),
  }));
}

function dueOf(message: Message): string | null {
  const ms = Number(message.properties?.[DUE] ?? NaN);
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? null : date.toISOString();
}

/** Until it was stored: made by its producer, kept back until it was due if it was delayed, then on disk. */
export function beginning(message: Message): Step[] {
  const due = dueOf(message);
  return chained(
    [
      { kind: "created", at: message.created_at },
      ...(due === null ? [] : [{ kind: "due" as const, at: due }]),
      { kind: "stored", at: message.stored_at },
    ],
    null,
  );
}

function byTime(one: Link, other: Link): number {
  return (one.stored_at ?? "").localeCompare(other.stored_at ?? "") || one.attempt - other.attempt;
}

/** In one consumer group: pulled, then acked, or sent back for a retry, or made a dead letter. */
export function inGroup(standing: Standing, storedAt: string | null): Step[] {
  const { pulled_at, acked_at, consumer_id, state } = standing;
  const wasPulled = pulled_at !== null || consumer_id !== null || state === "in_flight";
  // A consumer that sends a message back acks it too: that is no success.
  const isFailed = standing.retries.length > 0 || standing.dead_letters.length > 0;
  const isAcked = state === "acked" || (acked_at !== null && !isFailed);
  return chained(
    [
      ...(wasPulled ? [{ kind: "pulled" as const, at: pulled_at, consumerId: consumer_id }] : []),
      ...(isAcked ? [{ kind: "acked" as const, at: acked_at }] : []),
      ...[...standing.retries].sort(byTime).map((link) => ({ kind: "retry" as const, at: link.stored_at, link })),
      ...[...standing.dead_letters].sort(byTime).map((link) => ({ kind: "dead" as const, at: link.stored_at, link })),
    ],
    storedAt,
  );
}

/** A stretch of a group's lane, in milliseconds since 1970. */
export interface Stretch {
  kind: "waiting" | "in_flight" | "retrying";
  from: number;
  to: number;
}

export interface Lane {
  group: string;
  stretches: Stretch[];
  marks: { kind: "acked" | "retry" | "dead"; at: number; label: number | null }[];
}

const OPEN = new Set(["waiting", "in_flight", "retried"]);

/** What is drawn of a group: only what has known instants; what is still open lasts until now. */
export function laneOf(standing: Standing, storedAt: string | null, nowMs: number): Lane {
  const stretches: Stretch[] = [];
  const marks: Lane["marks"] = [];
  let from = storedAt === null ? null : Date.parse(storedAt);
  let kind: Stretch["kind"] = "waiting";
  const reach = (to: number) => {
    if (from !== null && to > from) stretches.push({ kind, from, to });
    from = to;
  };
  for (const step of inGroup(standing, storedAt)) {
    if (step.at === null) {
      // When it began is not known: nothing is drawn until the next known instant.
      from = null;
      kind = step.kind === "pulled" ? "in_flight" : kind;
      continue;
    }
    const at = Date.parse(step.at);
    reach(at);
    if (step.kind === "pulled") kind = "in_flight";
    else if (step.kind === "retry") kind = "retrying";
    if (step.kind === "acked" || step.kind === "retry" || step.kind === "dead") {
      marks.push({ kind: step.kind, at, label: step.link?.attempt ?? null });
    }
  }
  if (standing.state !== null && OPEN.has(standing.state)) reach(nowMs);
  return { group: standing.group, stretches, marks };
}
