import { api, must, type Schema } from "@/api/client";
import type { Step } from "@/ui/useSteps";
import type { Load } from "@/ui/table/types";

export type AuditEntry = Schema<"AuditRow">;
export type Verdict = Schema<"Verdict">;

export const auditKey = ["audit"] as const;
/** Entries that one request follows. */
export const VERIFY_STRETCH = 5_000;

export const loadAudit: Load<AuditEntry> = (query, signal) =>
  must(api.GET("/api/v1/audit/", { params: { query }, signal }));

/** Follow one stretch of the chain; a broken entry ends it. */
export async function verifyStretch(after: string | undefined, signal: AbortSignal): Promise<Step<Verdict>> {
  const query = { limit: VERIFY_STRETCH, after: after === undefined ? undefined : Number(after) };
  const verdict = await must(api.GET("/api/v1/audit/verify/", { params: { query }, signal }));
  const isOver = verdict.is_end || !verdict.is_whole;
  return { found: verdict.is_whole ? [] : [verdict], next: isOver ? null : verdict.last_id, done: verdict.checked };
}
