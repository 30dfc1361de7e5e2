import { useSyncExternalStore } from "react";
import type { Schema } from "@/api/client";
import type { Entry, Section } from "@/live/applyDelta";
import { feedAt, type LiveView } from "@/live/feed";

const NO_ENTRIES: Section = {};

/**
 * The live state of an address (`/ws/nodes/`, `lagPath({subject})`); one websocket however many components look at it.
 */
export function useLive(path: string): LiveView {
  const feed = feedAt(path);
  return useSyncExternalStore(feed.subscribe, feed.get);
}

/**
 * One entry of a live address. Only what shows it is drawn again, and only when it changed: for the rows of a long
 * list.
 */
export function useLiveEntry(path: string, section: string, key: string): Entry | undefined {
  const feed = feedAt(path);
  return useSyncExternalStore(feed.subscribe, () => feed.get().state[section]?.[key]);
}

/** The numbers of entries, by section. */
export interface LiveNumbers {
  groups: keyof Schema<"LagNumbers"> | "drain_seconds";
  subjects: "stored_messages" | "sent_messages" | "send_rate" | "send_bytes_rate";
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
  const found = useSyncExternalStore(feed.subscribe, () => {
    const entry = feed.get().state[section]?.[key] ?? or;
    const value = entry?.[field];
    return typeof value === "number" ? value : entry;
  });
  return typeof found === "number" ? { value: found, reason: null } : measured(found, field);
}

/** The same for what is worked out of a section; `of` gives the same object while the section is the same. */
export function useLivePart<Part>(path: string, section: string, of: (entries: Section) => Part): Part {
  const feed = feedAt(path);
  return useSyncExternalStore(feed.subscribe, () => of(feed.get().state[section] ?? NO_ENTRIES));
}

export function lagPath(of: { subject?: string; group?: string } = {}): string {
  const query = new URLSearchParams(Object.entries(of).filter(([, value]) => value));
  const text = query.toString();
  return text ? `/ws/lag/?${text}` : "/ws/lag/";
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
