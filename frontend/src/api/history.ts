import { queryOptions } from "@tanstack/react-query";
import type { Schema } from "@/api/client";
import { read } from "@/api/requests";

export type History = Schema<"History">;

/**
 * Whose last hour: of a subject, of one of its consumer groups, of a broker group, of a node; of nothing named: the
 * whole system.
 */
export interface HistoryOf {
  subject?: string;
  group?: string;
  broker_group?: string;
  node?: string;
}

/** Read again as points are added, every ten seconds. */
export function lastHourOptions(of: HistoryOf) {
  return queryOptions({
    queryKey: ["history", "refreshed", of],
    queryFn: read("/api/v1/history/", { query: of }),
    refetchInterval: 10_000,
  });
}

/** Read once a page: what comes after it is seen live. */
export function historyOptions(of: HistoryOf) {
  return queryOptions({
    queryKey: ["history", of],
    queryFn: read("/api/v1/history/", { query: of }),
    staleTime: Infinity,
    gcTime: 0,
    refetchOnWindowFocus: false,
  });
}

/** A range that ends now is read again as often: its points are minutes or longer. */
const RANGE_REFRESH_MS = 60_000;

/** A range of `seconds` that ends now, or a span from one instant to another. */
export function rangeHistoryOptions(of: HistoryOf, seconds: number, span: { from: string; to: string } | null) {
  return queryOptions({
    queryKey: ["history", "range", of, seconds, span],
    queryFn: (context) => {
      const ends = span ?? { from: new Date(Date.now() - seconds * 1000).toISOString() };
      return read("/api/v1/history/", { query: { ...of, ...ends } })(context);
    },
    staleTime: RANGE_REFRESH_MS,
    refetchInterval: span ? false : RANGE_REFRESH_MS,
  });
}
