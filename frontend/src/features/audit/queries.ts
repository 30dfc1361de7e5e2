import type { Schema } from "@/api/client";
import { read } from "@/api/requests";
import type { Step } from "@/ui/dialog/useSteps";

export type AuditEntry = Schema<"AuditRow">;
export type Verdict = Schema<"Verdict">;

export const auditKey = ["audit"] as const;
/** Entries that one request follows. */
export const VERIFY_STRETCH = 5_000;

/** Follow one stretch of the chain; a broken entry ends it. */
export async function verifyStretch(after: string | undefined, signal: AbortSignal): Promise<Step<Verdict>> {
  const query = { limit: VERIFY_STRETCH, after: after === undefined ? undefined : Number(after) };
  const verdict = await read("/api/v1/audit/verify/", { query })({ signal });
  const isOver = verdict.is_end || !verdict.is_whole;
  return { found: verdict.is_whole ? [] : [verdict], next: isOver ? null : verdict.last_id, done: verdict.checked };
}
