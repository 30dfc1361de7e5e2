import type { Change } from "@/api/client";
import { asProblem, type Problem } from "@/api/problem";
import { changeSubject, setArchived, type Subject } from "@/features/subjects/queries";
import { readWithTag, type Attempt } from "@/api/requests";
import { eachOf } from "@/ui/dialog/useSteps";

/** The same change for several subjects. */
export type BulkChange =
  | { kind: "owner"; owner: string | null }
  | { kind: "tags"; add: readonly string[]; remove: readonly string[] }
  | { kind: "archive" };

/** What became of one subject: the change (or what it would be), or why not. */
export interface Outcome {
  subject: string;
  /** The version that was previewed for: who was faster meanwhile is not written over. */
  etag: string | null;
  change: Change | null;
  problem: Problem | null;
}

/** Subjects that are changed at once at most. */
export const BULK_MAX = 500;
/** Subjects that are previewed between two checks whether the user cancelled; changes are made one by one. */
const PLANNED_AT_ONCE = 5;
const STALE = 412;

/** Tags after adding and removing some; what is in both stays. */
export function tagsAfter(tags: readonly string[], add: readonly string[], remove: readonly string[]): string[] {
  const gone = new Set(remove);
  return [...new Set([...tags.filter((tag) => !gone.has(tag)), ...add])].sort();
}

function changeOne(bulk: BulkChange, subject: Subject, etag: string | null, attempt: Attempt): Promise<Change> {
  switch (bulk.kind) {
    case "owner":
      return changeSubject(subject.name, { owner: bulk.owner }, etag, attempt);
    case "tags":
      return changeSubject(subject.name, { tags: tagsAfter(subject.tags ?? [], bulk.add, bulk.remove) }, etag, attempt);
    case "archive":
      return setArchived(subject.name, true, etag, attempt);
  }
}

/** Problems of one subject are noted with it, and the work continues with the others. */
async function noted(subject: string, etag: string | null, work: () => Promise<Outcome>): Promise<Outcome> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    return { subject, etag, change: null, problem: asProblem(error) };
  }
}

/** What would happen to each: read, then the API's dry run at the version that was read. */
export function previewStep(bulk: BulkChange, subjects: readonly string[]) {
  return eachOf(
    subjects,
    (subject, signal) =>
      noted(subject, null, async () => {
        const { data, etag } = await readWithTag("/api/v1/subjects/{subject}/", { path: { subject } })({ signal });
        const change = await changeOne(bulk, data, etag, { dryRun: true, reason: "" });
        return { subject, etag, change, problem: null };
      }),
    PLANNED_AT_ONCE,
  );
}

/**
 * The preview carried out, subject by subject, each at the version that was previewed for. One whose change was sent
 * when the user stopped is met again when the work continues: then it is as it should be, and that is no problem.
 */
export function applyStep(bulk: BulkChange, preview: readonly Outcome[], reason: string) {
  return eachOf(preview, ({ subject, etag }, signal) =>
    noted(subject, etag, async () => {
      const { data } = await readWithTag("/api/v1/subjects/{subject}/", { path: { subject } })({ signal });
      try {
        const change = await changeOne(bulk, data, etag, { dryRun: false, reason });
        return { subject, etag, change, problem: null };
      } catch (error) {
        if (asProblem(error).status !== STALE) throw error;
        const change = await changeOne(bulk, data, null, { dryRun: true, reason });
        if (change.is_change) throw error;
        return { subject, etag, change, problem: null };
      }
    }),
  );
}
