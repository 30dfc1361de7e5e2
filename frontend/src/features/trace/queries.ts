import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";
import type { Schema } from "@/api/client";
import { read } from "@/api/requests";
import type { Place } from "@/features/trace/recent";

export type Trace = Schema<"Trace">;
export type Standing = Schema<"Standing">;
export type Link = Schema<"Link">;
export type Message = Schema<"MessageRow">;
export type FoundMessage = Schema<"FoundMessage">;
export type FoundAnywhere = Schema<"FoundMessages">;

/** When a traced message was stored, and when it was asked for. */
export interface Times {
  storedAt: string | null;
  nowMs: number;
}

/** What became of a message; groups come in pages. */
export function traceOptions({ subject, brokerGroup, sequence }: Place) {
  return infiniteQueryOptions({
    queryKey: ["trace", subject, brokerGroup, sequence],
    queryFn: ({ signal, pageParam }) =>
      read("/api/v1/subjects/{subject}/messages/{broker_group}/{sequence}/trace/", {
        // A sequence may be past 2^53: it stays the text it came as.
        path: { subject, broker_group: brokerGroup, sequence: sequence as unknown as number },
        query: { after: pageParam },
      })({ signal }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (last) => last.next_after ?? undefined,
    // Each look is noted in the audit log.
    refetchOnWindowFocus: false,
  });
}

/** Every message of a subject with an id: the first attempt of each send. A node searches a limited number per call. */
export function findOptions(subject: string, messageId: string) {
  return queryOptions({
    queryKey: ["trace", "find", subject, messageId],
    queryFn: async ({ signal }) => {
      const unreachable: Record<string, string> = {};
      const results: Message[] = [];
      let cursor: string | undefined;
      do {
        const requested = { path: { subject }, query: { message_id: messageId, cursor } };
        const page = await read("/api/v1/subjects/{subject}/messages/", requested)({ signal });
        results.push(...page.results);
        Object.assign(unreachable, page.unreachable);
        cursor = page.next ?? undefined;
      } while (cursor !== undefined);
      return { results, unreachable };
    },
    enabled: subject !== "" && messageId !== "",
    refetchOnWindowFocus: false,
  });
}

/**
 * One bounded step of the search for an ID in all subjects. IDs of the official client contain the time of its machine,
 * most likely in the zone of the viewer.
 */
export function findAnywhere(
  messageId: string,
  around: string,
  cursor: string | undefined,
  signal: AbortSignal,
): Promise<FoundAnywhere> {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const query = { message_id: messageId, zone, around: around || undefined, cursor };
  return read("/api/v1/messages/", { query })({ signal });
}
