import { isRecord, numberOf } from "@/format/values";
import { isExplanation } from "@/ui/reasons";

/** A node's own numbers as pages show them. */
export type NodeStats = ReturnType<typeof readStats>;

/** A range of the log, or of another file, that can't be read. `problem`: why it was not repaired, "" if unknown. */
export interface Damage {
  /** "log", or the name of a file. */
  file: string;
  begin: number;
  end: number;
  why: string;
  problem: string;
}

/** How far a node has read its stored data again. */
export interface Scrub {
  passSeconds: number;
  share: number;
  /** Since the end of the last whole pass; null: none was completed. */
  lastPassAge: number | null;
}

function readScrub(scrub: unknown): Scrub | null {
  if (!isRecord(scrub)) return null;
  const [passSeconds, share] = [numberOf(scrub.pass_seconds), numberOf(scrub.done_share)];
  if (passSeconds === null || share === null) return null;
  return { passSeconds, share, lastPassAge: numberOf(scrub.last_pass_age_seconds) };
}

function readDamage(ranges: unknown): Damage[] {
  const found = Array.isArray(ranges) ? ranges.filter(isRecord) : [];
  return found.map(({ file, begin, end, why, problem }) => ({
    file: text(file) || "log",
    begin: numberOf(begin) ?? 0,
    end: numberOf(end) ?? 0,
    why: text(why),
    problem: text(problem),
  }));
}

/** What is damaged: ranges that wait to be repaired, and those of the log that are not among them. */
function damageOf(log: unknown, waiting: unknown): Damage[] {
  const known = readDamage(waiting);
  const isKnown = ({ file, begin, end }: Damage) =>
    known.some((other) => other.file === file && other.begin === begin && other.end === end);
  return [...readDamage(log).filter((range) => !isKnown(range)), ...known];
}

function text(value: unknown): string {
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}

/**
 * Reads what a node answers to `GET /stats`; null where it does not say. `stateReason`: why it takes no sends, "" when
 * it does.
 */
export function readStats(stats: Readonly<Record<string, unknown>>) {
  const log = isRecord(stats.log) ? stats.log : {};
  const policy = isRecord(stats.policy) ? stats.policy : {};
  const replication = isRecord(stats.replication) ? stats.replication : {};
  const repairs = isRecord(replication.repairs) ? replication.repairs : {};
  return {
    state: text(stats.state) || null,
    stateReason: text(stats.state_reason),
    stateWhy: isExplanation(stats.state_why) ? stats.state_why : null,
    uptimeSeconds: numberOf(stats.uptime_seconds),
    connections: numberOf(stats.connections),
    logBegin: numberOf(log.begin),
    logEnd: numberOf(log.end),
    syncedEnd: numberOf(log.synced_end),
    reportedEnd: numberOf(log.reported_end) ?? numberOf(log.synced_end),
    damaged: damageOf(log.damaged, repairs.pending),
    damagedRanges: numberOf(replication.damaged_ranges),
    repairedRanges: numberOf(replication.repaired_ranges),
    scrub: readScrub(replication.scrub),
    policyVersion: text(policy.version) || null,
    policyProblem: text(policy.problem),
  };
}

/**
 * How many bytes of log a node had reported and has no more: acknowledged messages that are gone. 0: none; null: not
 * known.
 */
export function missingBytes(highestEnd: string, stats: NodeStats | null): number | null {
  if (stats?.reportedEnd == null) return null;
  return Math.max(0, Number(highestEnd) - stats.reportedEnd);
}
