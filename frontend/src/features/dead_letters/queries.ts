import { queryOptions } from "@tanstack/react-query";
import { api, must, type Schema } from "@/api/client";
import { read } from "@/api/requests";
import type { ListPage, ListQuery, Load } from "@/ui/table/types";

export type LetterCount = Schema<"LetterCount">;
export type DeadLetter = Schema<"LetterRow">;
export type Story = Schema<"LetterStory">;
export type Attempt = Schema<"AttemptRow">;
export type CausePage = Schema<"CausePage">;
export type Progress = Schema<"Progress">;

export const STATES = ["open", "replayed", "replaying", "unknown", "deleted"] as const;
export type State = (typeof STATES)[number];

/** Counts of one page, at most: each is requested of every broker group. */
const COUNTS_MAX = 100;

/** Keys begin with `dead-letters`: a decision refreshes all. */
export const deadLettersKey = ["dead-letters"] as const;

export const loadCounts: Load<LetterCount> = (query, signal) => {
  const limit = String(Math.min(Number(query.limit), COUNTS_MAX));
  const requested = { ...query, limit } as Record<string, string | undefined>;
  return must(api.GET("/api/v1/dead-letters/", { params: { query: requested }, signal }));
};

/** The counts of one consumer group of a subject; null when it has no dead letters. */
export function countOptions(subject: string, group: string) {
  return queryOptions({
    queryKey: [...deadLettersKey, "count", subject, group],
    queryFn: read("/api/v1/dead-letters/", { query: { subject, group } }),
    select: ({ results }: { results: readonly LetterCount[] }) => results[0] ?? null,
  });
}

/** How often each cause occurs among the newest dead letters of a consumer group. */
export function causesOptions(subject: string, group: string) {
  return queryOptions({
    queryKey: [...deadLettersKey, "causes", subject, group],
    queryFn: read("/api/v1/dead-letters/{subject}/{group}/causes/", { path: { subject, group } }),
  });
}

/** The same of all consumer groups. */
export function allCausesOptions() {
  return queryOptions({
    queryKey: [...deadLettersKey, "causes"],
    queryFn: read("/api/v1/dead-letters/causes/", {}),
  });
}

/** A page of dead letters. Empty pages are skipped until something is found or there is nothing more. */
export async function loadDeadLetters(
  subject: string,
  group: string,
  query: ListQuery,
  signal: AbortSignal,
): Promise<ListPage<DeadLetter>> {
  const missing: Record<string, string> = {};
  let cursor = query.cursor;
  for (;;) {
    const page = await must(
      api.GET("/api/v1/dead-letters/{subject}/{group}/", {
        params: {
          path: { subject, group },
          query: {
            limit: Number(query.limit),
            state: query.state ? [query.state as State] : undefined,
            cause: query.cause,
            filter: query.filter,
            cursor,
          },
        },
        signal,
      }),
    );
    Object.assign(missing, page.unreachable);
    if (page.results.length > 0 || page.next === null) return { ...page, unreachable: missing };
    cursor = page.next;
  }
}

export function storyOptions(subject: string, group: string, brokerGroup: string, sequence: string) {
  return queryOptions({
    queryKey: [...deadLettersKey, "one", subject, group, brokerGroup, sequence],
    queryFn: read("/api/v1/dead-letters/{subject}/{group}/{broker_group}/{sequence}/", {
      // A sequence may be past 2^53: it stays the text it came as.
      path: { subject, group, broker_group: brokerGroup, sequence: sequence as unknown as number },
    }),
    // Each look is noted in the audit log.
    refetchOnWindowFocus: false,
  });
}
