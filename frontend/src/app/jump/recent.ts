import type { Target } from "@/ui/links/addresses";

/** Where the user went by Ctrl-K; `kind` is "page" for the console's own. */
export interface Recent {
  id: string;
  kind: string;
  label: string;
  hint: string;
  address: Target;
}

export const RECENT_MAX = 6;

/** A place of its own for everybody who signs in on this machine: names are not for all to see. */
function keyOf(user: string): string {
  return `qmq.jumps.${user}`;
}

function isRecent(value: unknown): value is Recent {
  if (typeof value !== "object" || value === null) return false;
  const { id, kind, label, hint, address } = value as Record<string, unknown>;
  const isText = [id, kind, label, hint].every((one) => typeof one === "string");
  return isText && typeof (address as Target | undefined)?.to === "string";
}

/** The newest first. Entries of an older console, or edited by hand, are left out if they don't fit. */
export function recentOf(user: string): Recent[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(keyOf(user)) ?? "[]");
    return Array.isArray(kept) ? kept.filter(isRecent).slice(0, RECENT_MAX) : [];
  } catch {
    return [];
  }
}

export function remember(user: string, went: Recent): void {
  const kept = [went, ...recentOf(user).filter(({ id }) => id !== went.id)].slice(0, RECENT_MAX);
  localStorage.setItem(keyOf(user), JSON.stringify(kept));
}
