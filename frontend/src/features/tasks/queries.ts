import { queryOptions } from "@tanstack/react-query";
import { api, must, type Change, type Schema } from "@/api/client";
import type { Attempt } from "@/api/requests";

export type Task = Schema<"TaskRow">;

/** Loops run every few seconds: so does the page. */
const REFRESH_MS = 2_000;

export const tasksKey = ["tasks"] as const;

export function tasksOptions() {
  return queryOptions({
    queryKey: tasksKey,
    queryFn: ({ signal }) => must(api.GET("/api/v1/tasks/", { signal })),
    refetchInterval: REFRESH_MS,
  });
}

/** Run a job now. */
export function runTask(name: string): Promise<Change> {
  return must(api.POST("/api/v1/tasks/{name}/run/", { params: { path: { name } }, body: {} }));
}

/** Enable or disable a job. */
export function switchTask(name: string, isOn: boolean, { dryRun, reason }: Attempt): Promise<Change> {
  const init = { params: { path: { name }, query: { dry_run: dryRun } }, body: { reason } };
  return must(isOn ? api.POST("/api/v1/tasks/{name}/enable/", init) : api.POST("/api/v1/tasks/{name}/disable/", init));
}
