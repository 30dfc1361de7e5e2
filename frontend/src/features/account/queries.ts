import { queryOptions } from "@tanstack/react-query";
import type { Schema } from "@/api/client";
import { Problem } from "@/api/problem";
import { allauth, allauthChange, type Answer } from "@/api/session";

export type Session = Schema<"SessionRow">;
export type MyChange = Schema<"PatchedMyChangeRequest">;

export const sessionsKey = ["me", "sessions"] as const;
export const factorsKey = ["me", "authenticators"] as const;

export function changePassword(current_password: string, new_password: string): Promise<Answer> {
  return allauthChange("POST", "account/password/change", { current_password, new_password });
}

/** What one has beside the password. Instants are in seconds since 1970 there. */
export interface Factors {
  app: { created_at: number; last_used_at: number | null } | null;
  codes: { unused: number; total: number } | null;
}

interface Authenticator {
  type: string;
  created_at: number;
  last_used_at: number | null;
  unused_code_count?: number;
  total_code_count?: number;
}

export function factorsOf(listed: readonly Authenticator[]): Factors {
  const app = listed.find(({ type }) => type === "totp") ?? null;
  const codes = listed.find(({ type }) => type === "recovery_codes");
  return {
    app,
    codes: codes ? { unused: codes.unused_code_count ?? 0, total: codes.total_code_count ?? 0 } : null,
  };
}

export function factorsOptions() {
  return queryOptions({
    queryKey: factorsKey,
    queryFn: async ({ signal }) => {
      const { data } = await allauth("GET", "account/authenticators", undefined, signal);
      return factorsOf(Array.isArray(data) ? (data as Authenticator[]) : []);
    },
  });
}

export interface Secret {
  secret: string;
  /** What the picture says to the app. */
  address: string;
}

/** A new secret for an authenticator app; every call makes another one. It comes in a 404: there is no app yet. */
export async function newSecret(): Promise<Secret> {
  const { status, meta } = await allauth("GET", "account/authenticators/totp");
  if (typeof meta.secret !== "string" || typeof meta.totp_url !== "string") {
    throw new Problem(status, "console.unexpected", `HTTP ${status}`, "");
  }
  return { secret: meta.secret, address: meta.totp_url };
}

export function addApp(code: string): Promise<Answer> {
  return allauthChange("POST", "account/authenticators/totp", { code: code.replace(/\s/g, "") });
}

export function removeApp(): Promise<Answer> {
  return allauthChange("DELETE", "account/authenticators/totp");
}

/** Recovery codes: those made with the app, once; or, with `renew`, ten new ones instead of all before. */
export async function recoveryCodes(renew: boolean): Promise<readonly string[]> {
  const { data } = await allauthChange(
    renew ? "POST" : "GET",
    "account/authenticators/recovery-codes",
    renew ? {} : undefined,
  );
  return Array.isArray(data.unused_codes) ? (data.unused_codes as string[]) : [];
}
