import { useCallback, useSyncExternalStore } from "react";
import type { Schema } from "@/api/client";
import type { Entry } from "@/live/applyDelta";
import type { LiveFeed, LiveView } from "@/live/feed";
import { feedAt } from "@/live/feeds";
import { ROWS_PATH } from "@/live/rows";

/**
 * The live state of an address (`/ws/nodes/`, `lagPath({subject})`); one websocket however many components look at it.
 */
export function useLive(path: string): LiveView {
  const feed = feedAt(path);
  return useSyncExternalStore(feed.subscribe, feed.get);
}

/** A text that is worked out of a live address's state: what shows it is drawn again only when it changes. */
export function useLiveText<Text extends string | null>(path: string, of: (view: LiveView) => Text): Text {
  const feed = feedAt(path);
  return useSyncExternalStore(feed.subscribe, () => of(feed.get()));
}

/**
 * One entry of a live address. Only what shows it is drawn again, and only when it changed: for the rows of a long
 * list.
 */
export function useLiveEntry(path: string, section: string, key: string): Entry | undefined {
  const feed = feedAt(path);
  return useSyncExternalStore(useSubscribe(feed, section, key), () => feed.get().state[section]?.[key]);
}

function useSubscribe(feed: LiveFeed, section: string, key: string): (listener: () => void) => () => void {
  return useCallback((listener) => feed.subscribeTo(section, key, listener), [feed, section, key]);
}

/** The numbers of entries, by section. */
export interface LiveNumbers {
  groups: keyof Schema<"LagNumbers"> | "drain_seconds";
  subjects: "stored_messages" | "sent_messages" | "send_rate" | "send_bytes_rate" | "highest_lag";
}

/** One number of an entry, `or` of what is known without the feed: it is drawn again only when this number changes. */
export function useLiveNumber<S extends keyof LiveNumbers>(
  path: string,
  section: S,
  key: string,
  field: LiveNumbers[S],
  or?: Entry,
): Reading {
  const feed = feedAt(path);
  const found = useSyncExternalStore(useSubscribe(feed, section, key), () => {
    const entry = feed.get().state[section]?.[key] ?? or;
    const value = entry?.[field];
    return typeof value === "number" ? value : entry;
  });
  return typeof found === "number" ? { value: found, reason: null } : measured(found, field);
}

/** The feed of a subject or of one of its groups; without either that of the rows that lists show. */
export function lagPath(of: { subject?: string; group?: string } = {}): string {
  const query = new URLSearchParams(Object.entries(of).filter(([, value]) => value));
  const text = query.toString();
  return text ? `${ROWS_PATH}?${text}` : ROWS_PATH;
}

/** The key of a consumer group in the section `groups`. */
export function groupKey(subject: string, group: string): string {
  return `${subject}\n${group}`;
}

/** A number of a live entry, or null with the reason why there is none. */
export function measured(entry: Entry | undefined, field: string): Reading {
  const value = entry?.[field];
  if (typeof value === "number") return { value, reason: null };
  const reason = entry?.reason;
  const of = (part: unknown): number | undefined => {
    const found = typeof part === "object" && part !== null ? (part as Record<string, unknown>)[field] : undefined;
    return typeof found === "number" ? found : undefined;
  };
  const missing = entry?.missing;
  return {
    value: null,
    reason: typeof reason === "string" ? reason : null,
    missing: Array.isArray(missing) ? missing.map(String) : undefined,
    atLeast: of(entry?.at_least),
    last: of(entry?.last),
    lastAt: typeof entry?.at === "string" ? entry.at : undefined,
  };
}

/** A number as it was measured. The optional parts are known only while some broker groups can't be asked. */
export interface Reading {
  value?: number | null | undefined;
  reason?: string | null;
  /** Broker groups whose numbers are missing. */
  missing?: readonly string[] | undefined;
  /** What the others report. */
  atLeast?: number | undefined;
  /** The last complete measurement, at `lastAt`. */
  last?: number | undefined;
  lastAt?: string | undefined;
}
