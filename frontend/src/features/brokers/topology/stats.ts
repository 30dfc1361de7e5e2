import { isRecord, numberOf } from "@/format/values";
import { isExplanation } from "@/shared/reasons";

/** A node's own numbers as pages show them. */
export type NodeStats = ReturnType<typeof readStats>;

/** A range of the log that can't be read. */
export interface Damage {
  begin: number;
  end: number;
  why: string;
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
  const damaged = Array.isArray(log.damaged) ? log.damaged.filter(isRecord) : [];
  return {
    state: text(stats.state) || null,
    stateReason: text(stats.state_reason),
    stateWhy: isExplanation(stats.state_why) ? stats.state_why : null,
    uptimeSeconds: numberOf(stats.uptime_seconds),
    connections: numberOf(stats.connections),
    logBegin: numberOf(log.begin),
    logEnd: numberOf(log.end),
    syncedEnd: numberOf(log.synced_end),
    damaged: damaged.map(({ begin, end, why }): Damage => ({
      begin: numberOf(begin) ?? 0,
      end: numberOf(end) ?? 0,
      why: text(why),
    })),
    policyVersion: text(policy.version) || null,
    policyProblem: text(policy.problem),
  };
}

/**
 * How many bytes of log a node had reported and has no more: acknowledged messages that are gone. 0: none; null: not
 * known.
 */
export function missingBytes(reportedEnd: string, stats: NodeStats | null): number | null {
  if (stats?.syncedEnd == null) return null;
  return Math.max(0, Number(reportedEnd) - stats.syncedEnd);
}
