import type { Job } from "@/features/jobs/queries";

export type Verdict = "off" | "late" | "failed" | "running" | "fine" | "never";

/** The one word for how a job does, worst first: what is off or late matters more than how its last run went. */
export function verdictOf(job: Pick<Job, "is_enabled" | "is_late" | "error" | "is_running" | "succeeded_at">): Verdict {
  if (!job.is_enabled) return "off";
  if (job.is_late) return "late";
  if (job.error) return "failed";
  if (job.is_running) return "running";
  return job.succeeded_at ? "fine" : "never";
}

export const COLOURS: Record<Verdict, string> = {
  off: "gray",
  late: "red",
  failed: "orange",
  running: "blue",
  fine: "teal",
  never: "gray",
};
