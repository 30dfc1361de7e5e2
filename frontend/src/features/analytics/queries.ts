import { queryOptions } from "@tanstack/react-query";
import type { Change, Schema } from "@/api/client";
import { change, read, type Attempt } from "@/api/requests";
import type { paths } from "@/api/schema.gen";
import type { Load } from "@/ui/table/types";

type TableOf = paths["/api/v1/analytics/tables/{table}/"]["get"];
export type TableName = TableOf["parameters"]["path"]["table"];
export type TableQuery = NonNullable<TableOf["parameters"]["query"]>;
export type Rows = Schema<"SummaryPage">;
export type Row = Rows["results"][number];
export type Run = Schema<"RunRow">;

/** Keys begin with `analytics`. */
export const analyticsKey = ["analytics"] as const;
/** Of a run that simulates: what it made is no measurement. */
export const DEMO_JOB = "demo";

const PAGE_ROWS = 500;
/** Rows that a chart holds; of one subject and group the API gives fewer by itself. */
const ROWS_MAX = 5_000;

function page(table: TableName, query: TableQuery, signal: AbortSignal): Promise<Rows> {
  return read("/api/v1/analytics/tables/{table}/", { path: { table }, query })({ signal });
}

/** All rows of a question, in the order of time; `isCut` when there are more than a chart holds. */
export function seriesOptions(table: TableName, selection: TableQuery | null) {
  return queryOptions({
    queryKey: [...analyticsKey, "series", table, selection],
    enabled: selection !== null,
    queryFn: async ({ signal }) => {
      const first = await page(table, { ...selection, ordering: "at", limit: PAGE_ROWS }, signal);
      const rows = [...first.results];
      let { next } = first;
      while (next && rows.length < ROWS_MAX) {
        // Read on in the very range and step that the first page is of: `now` has moved on meanwhile.
        const same = { ...selection, from: first.from_at, to: first.to_at, step: first.step };
        const more = await page(table, { ...same, ordering: "at", limit: PAGE_ROWS, cursor: next }, signal);
        rows.push(...more.results);
        next = more.next;
      }
      return { ...first, results: rows, isCut: next !== null };
    },
  });
}

const RUNNING_REFRESH_MS = 3_000;
const IDLE_REFRESH_MS = 15_000;

/** The run that is in work, if any; read more often while there is one. */
export function runningOptions() {
  return queryOptions({
    queryKey: [...analyticsKey, "running"],
    queryFn: (context) =>
      read("/api/v1/analytics/runs/", { query: { state: "running", ordering: "-id", limit: 1 } })(context),
    refetchInterval: ({ state }) => (state.data?.results[0] ? RUNNING_REFRESH_MS : IDLE_REFRESH_MS),
  });
}

export type Ranking = Schema<"Ranking">;

/** The subjects, groups or nodes with the highest values; with nothing chosen, the first of them is drawn. */
export function rankingOptions(table: TableName, selection: TableQuery, rank: string, isWanted: boolean) {
  return queryOptions({
    queryKey: [...analyticsKey, "ranking", table, selection, rank],
    enabled: isWanted,
    queryFn: read("/api/v1/analytics/tables/{table}/ranking/", {
      path: { table },
      query: { ...selection, by: rank },
    }),
  });
}

export function loadRows(table: TableName, selection: TableQuery): Load<Row> {
  return (query, signal) => page(table, { ...selection, ...(query as TableQuery) }, signal);
}

export function runOptions(id: string) {
  return queryOptions({
    queryKey: [...analyticsKey, "run", id],
    queryFn: read("/api/v1/analytics/runs/{run_id}/", { path: { run_id: Number(id) } }),
  });
}

/** Which tables contain demo data. */
export function demoOptions() {
  return queryOptions({
    queryKey: [...analyticsKey, "demo"],
    queryFn: read("/api/v1/analytics/demo/"),
  });
}

export function replaceDemo(attempt: Attempt): Promise<Change> {
  return change("post", "/api/v1/analytics/demo/replace/", attempt);
}

const OFFERED_MAX = 20;

/**
 * A few names to choose from: subjects, or consumer groups (of a subject, unless it is ""), that have the text in them.
 */
export function namesOptions(kind: "subject" | "group", subject: string, search: string) {
  return queryOptions({
    queryKey: [...analyticsKey, "names", kind, subject, search],
    queryFn: async (context) => {
      const query = { search: search || undefined, limit: OFFERED_MAX };
      const { results } =
        kind === "subject"
          ? await read("/api/v1/subjects/", { query: { ...query, ordering: "name" } })(context)
          : await read("/api/v1/consumer-groups/", { query: { ...query, subject: subject || undefined } })(context);
      return [...new Set(results.map(({ name }) => name))];
    },
  });
}
