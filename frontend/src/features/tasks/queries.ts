import { queryOptions } from "@tanstack/react-query";
import type { Change, Schema } from "@/api/client";
import { change, read, type Attempt } from "@/api/requests";
import { tasksKey } from "@/shared/RunNow";

export type Task = Schema<"TaskRow">;

/** Loops run every few seconds: so does the page. */
const REFRESH_MS = 2_000;

export function tasksOptions() {
  return queryOptions({ queryKey: tasksKey, queryFn: read("/api/v1/tasks/"), refetchInterval: REFRESH_MS });
}

/** Enable or disable a job. */
export function switchTask(name: string, isOn: boolean, attempt: Attempt): Promise<Change> {
  const which = isOn ? "/api/v1/tasks/{name}/enable/" : "/api/v1/tasks/{name}/disable/";
  return change("post", which, attempt, { path: { name } });
}
