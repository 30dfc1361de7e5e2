import { queryOptions } from "@tanstack/react-query";
import { api, must, type Change, type Schema } from "@/api/client";
import type { Attempt } from "@/ui/ChangeDialog";
import { tasksKey } from "@/ui/RunNow";

export type Task = Schema<"TaskRow">;

/** Loops run every few seconds: so does the page. */
const REFRESH_MS = 2_000;

export function tasksOptions() {
  return queryOptions({
    queryKey: tasksKey,
    queryFn: ({ signal }) => must(api.GET("/api/v1/tasks/", { signal })),
    refetchInterval: REFRESH_MS,
  });
}

/** Enable or disable a job. */
export function switchTask(name: string, isOn: boolean, { dryRun, reason }: Attempt): Promise<Change> {
  const init = { params: { path: { name }, query: { dry_run: dryRun } }, body: { reason } };
  return must(isOn ? api.POST("/api/v1/tasks/{name}/enable/", init) : api.POST("/api/v1/tasks/{name}/disable/", init));
}
