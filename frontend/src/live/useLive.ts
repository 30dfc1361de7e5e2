import { useSyncExternalStore } from "react";
import type { Entry } from "@/live/applyDelta";
import { feedAt, type LiveView } from "@/live/feed";

/** The live state of an address (`/ws/nodes/`, `lagPath({subject})`); one websocket however many components look at it. */
export function useLive(path: string): LiveView {
  const feed = feedAt(path);
  return useSyncExternalStore(feed.subscribe, feed.get);
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
export function measured(entry: Entry | undefined, field: string): { value: number | null; reason: string | null } {
  const value = entry?.[field];
  if (typeof value === "number") return { value, reason: null };
  const reason = entry?.reason;
  return { value: null, reason: typeof reason === "string" ? reason : null };
}
