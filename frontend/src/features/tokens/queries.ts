import { queryOptions } from "@tanstack/react-query";
import type { Schema } from "@/api/client";
import { read } from "@/api/requests";

export type Token = Schema<"TokenRow">;
export type NewToken = Required<Omit<Schema<"NewTokenRequest">, "reason">>;
export type Scope = NewToken["scopes"][number];

export const SCOPES: readonly Scope[] = ["read", "messages", "operate", "admin"];
export const LIFE_DAYS = [7, 30, 90, 180, 365] as const;

export const tokensKey = ["tokens"] as const;

/** What each scope lets a token do, as the API's own table says. */
export function scopesOptions() {
  return queryOptions({ queryKey: ["roles"], queryFn: read("/api/v1/roles/"), staleTime: Infinity });
}
