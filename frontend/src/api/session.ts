import { csrfToken } from "@/api/client";
import { Problem } from "@/api/problem";

/** Signing in and out: allauth's JSON addresses below `/_allauth/browser/v1/` (docs/accounts.md). */

const BASE = "/_allauth/browser/v1/";

export interface Flow {
  id: string;
  is_pending?: boolean;
  types?: readonly string[];
}

/** What such an address answers: 200 done; 401 signed out, or a flow is pending (`mfa_authenticate`); 400 with errors by field. */
export interface Answer {
  status: number;
  data: Readonly<Record<string, unknown>>;
  flows: readonly Flow[];
  isAuthenticated: boolean;
  errors: readonly { message: string; code: string; param?: string }[];
}

/** Ask one of them. Throws a `Problem` when no such answer came: the network, a limit (429), the database or Redis away (503). */
export async function allauth(method: string, path: string, body?: unknown): Promise<Answer> {
  let response: Response;
  try {
    response = await fetch(BASE + path, {
      method,
      credentials: "same-origin",
      headers: { "Content-Type": "application/json", Accept: "application/json", "X-CSRFToken": csrfToken() },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Problem(0, "console.unreachable", "", "");
  }
  let said: Record<string, unknown> = {};
  try {
    said = (await response.json()) as Record<string, unknown>;
  } catch {
    said = {};
  }
  if (response.status === 429 || response.status >= 500 || (response.status === 403 && !("meta" in said))) {
    const code = typeof said.code === "string" ? said.code : `http.${response.status}`;
    const text = (value: unknown) => (typeof value === "string" ? value : "");
    throw new Problem(response.status, code, text(said.title), text(said.detail));
  }
  const data = (said.data ?? {}) as Record<string, unknown>;
  const meta = (said.meta ?? {}) as { is_authenticated?: boolean };
  return {
    status: response.status,
    data,
    flows: (data.flows ?? []) as Flow[],
    isAuthenticated: Boolean(meta.is_authenticated),
    errors: (said.errors ?? []) as Answer["errors"],
  };
}

export async function signOut(): Promise<void> {
  await allauth("DELETE", "auth/session");
}
