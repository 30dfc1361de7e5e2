import type { Task } from "@/features/tasks/queries";

export type Verdict = "off" | "late" | "failed" | "running" | "fine" | "never";

/** The one word for how a loop does, worst first: what is off or late matters more than how its last run went. */
export function verdictOf(
  task: Pick<Task, "is_enabled" | "is_late" | "error" | "is_running" | "succeeded_at">,
): Verdict {
  if (!task.is_enabled) return "off";
  if (task.is_late) return "late";
  if (task.error) return "failed";
  if (task.is_running) return "running";
  return task.succeeded_at ? "fine" : "never";
}

export const COLOURS: Record<Verdict, string> = {
  off: "gray",
  late: "red",
  failed: "orange",
  running: "blue",
  fine: "teal",
  never: "gray",
};
