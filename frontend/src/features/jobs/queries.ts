import { queryOptions } from "@tanstack/react-query";
import type { Change, Schema } from "@/api/client";
import { change, read, type Attempt } from "@/api/requests";
import { jobsKey } from "@/shared/RunNow";

export type Job = Schema<"JobRow">;

/** Jobs run every few seconds: so does the page. */
const REFRESH_MS = 2_000;

export function jobsOptions() {
  return queryOptions({ queryKey: jobsKey, queryFn: read("/api/v1/jobs/"), refetchInterval: REFRESH_MS });
}

/** Enable or disable a job. */
export function switchJob(name: string, isOn: boolean, attempt: Attempt): Promise<Change> {
  const which = isOn ? "/api/v1/jobs/{name}/enable/" : "/api/v1/jobs/{name}/disable/";
  return change("post", which, attempt, { path: { name } });
}
