import { queryOptions } from "@tanstack/react-query";
import { api, must, queryOf, type Change, type Schema } from "@/api/client";
import type { paths } from "@/api/schema.gen";
import type { Attempt } from "@/ui/ChangeDialog";
import type { Load } from "@/ui/table/types";

type TableOf = paths["/api/v1/analytics/tables/{table}/"]["get"];
export type TableName = TableOf["parameters"]["path"]["table"];
export type TableQuery = NonNullable<TableOf["parameters"]["query"]>;
export type Rows = Schema<"SummaryPage">;
export type Row = Rows["results"][number];
export type Run = Schema<"RunRow">;
export type MadeBy = Schema<"RunOfRows">;

/** Keys begin with `analytics`. */
export const analyticsKey = ["analytics"] as const;
/** Of a run that simulates: what it made is no measurement. */
export const DEMO_JOB = "demo";

const PAGE_ROWS = 500;
/** A chart holds so many rows; of one subject and group the API gives fewer by itself. */
const ROWS_MAX = 5_000;

function page(table: TableName, query: TableQuery, signal: AbortSignal): Promise<Rows> {
  return must(api.GET("/api/v1/analytics/tables/{table}/", { params: { path: { table }, query }, signal }));
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

/** The row that stands out most, so that a page opens with something to look at; null when there is none. */
export function worstOptions(table: TableName, selection: TableQuery, rank: string, isWanted: boolean) {
  return queryOptions({
    queryKey: [...analyticsKey, "worst", table, selection, rank],
    enabled: isWanted,
    queryFn: async ({ signal }) => {
      // A few: some databases put what could not be measured first.
      const found = await page(table, { ...selection, ordering: rank, limit: 50 }, signal);
      const column = rank.replace("-", "");
      const row = found.results.find((one) => typeof one[column] === "number") ?? found.results[0] ?? null;
      return { ...found, row };
    },
  });
}

export function loadRows(table: TableName, selection: TableQuery): Load<Row> {
  return (query, signal) => page(table, { ...selection, ...(query as TableQuery) }, signal);
}

export const loadRuns: Load<Run> = (query, signal) =>
  must(api.GET("/api/v1/analytics/runs/", { params: { query: queryOf<"/api/v1/analytics/runs/">(query) }, signal }));

export function runOptions(id: string) {
  return queryOptions({
    queryKey: [...analyticsKey, "run", id],
    queryFn: ({ signal }) =>
      must(api.GET("/api/v1/analytics/runs/{run_id}/", { params: { path: { run_id: Number(id) } }, signal })),
  });
}

/** Which tables contain demo data. */
export function demoOptions() {
  return queryOptions({
    queryKey: [...analyticsKey, "demo"],
    queryFn: ({ signal }) => must(api.GET("/api/v1/analytics/demo/", { signal })),
  });
}

export function replaceDemo({ dryRun, reason }: Attempt): Promise<Change> {
  return must(
    api.POST("/api/v1/analytics/demo/replace/", { params: { query: { dry_run: dryRun } }, body: { reason } }),
  );
}

const OFFERED_MAX = 20;

async function subjectsLike(search: string, signal: AbortSignal): Promise<string[]> {
  const query = { search: search || undefined, limit: OFFERED_MAX, ordering: "name" };
  return (await must(api.GET("/api/v1/subjects/", { params: { query }, signal }))).results.map(({ name }) => name);
}

async function groupsLike(subject: string, search: string, signal: AbortSignal): Promise<string[]> {
  const query = { subject: subject || undefined, search: search || undefined, limit: OFFERED_MAX };
  const { results } = await must(api.GET("/api/v1/consumer-groups/", { params: { query }, signal }));
  return [...new Set(results.map(({ name }) => name))];
}

/** A few names to choose from: subjects, or consumer groups (of a subject, unless it is ""), that have the text in them. */
export function namesOptions(kind: "subject" | "group", subject: string, search: string) {
  return queryOptions({
    queryKey: [...analyticsKey, "names", kind, subject, search],
    queryFn: ({ signal }) => (kind === "subject" ? subjectsLike(search, signal) : groupsLike(subject, search, signal)),
  });
}
