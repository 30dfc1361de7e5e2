import { queryOptions } from "@tanstack/react-query";
import { api, must, type Change, type Schema } from "@/api/client";
import type { Attempt } from "@/api/requests";
import type { Load } from "@/ui/table/types";

export type Token = Schema<"TokenRow">;
export type MadeToken = Schema<"MadeToken">;
export type Scope = Schema<"NewTokenRequest">["scopes"][number];

export const SCOPES: readonly Scope[] = ["read", "messages", "operate", "admin"];
export const LIFE_DAYS = [7, 30, 90, 180, 365] as const;
export const NAME_CHARS_MAX = 100;

export const tokensKey = ["tokens"] as const;

export const loadTokens: Load<Token> = (query, signal) =>
  must(api.GET("/api/v1/tokens/", { params: { query }, signal }));

/** What each scope lets a token do, as the API's own table says. */
export function scopesOptions() {
  return queryOptions({
    queryKey: ["roles"],
    queryFn: async ({ signal }) => (await must(api.GET("/api/v1/roles/", { signal }))).scopes,
    staleTime: Infinity,
  });
}

export interface NewToken {
  name: string;
  scopes: Scope[];
  expires_in_days: number;
}

export function createToken(token: NewToken, { dryRun, reason }: Attempt): Promise<MadeToken> {
  return must(api.POST("/api/v1/tokens/", { params: { query: { dry_run: dryRun } }, body: { ...token, reason } }));
}

export function revokeToken(id: string, { dryRun, reason }: Attempt): Promise<Change> {
  const params = { path: { token_id: Number(id) }, query: { dry_run: dryRun } };
  return must(api.DELETE("/api/v1/tokens/{token_id}/", { params, body: { reason } }));
}
