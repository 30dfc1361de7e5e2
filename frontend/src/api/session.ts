import { csrfToken } from "@/api/client";
import { Problem, problemOf } from "@/api/problem";
import { askForProof } from "@/api/proof";

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
  meta: Readonly<Record<string, unknown>>;
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
  let answered: Record<string, unknown> = {};
  try {
    answered = (await response.json()) as Record<string, unknown>;
  } catch {
    answered = {};
  }
  if (response.status === 429 || response.status >= 500 || (response.status === 403 && !("meta" in answered))) {
    const code = typeof answered.code === "string" ? answered.code : `http.${response.status}`;
    const text = (value: unknown) => (typeof value === "string" ? value : "");
    throw new Problem(response.status, code, text(answered.title), text(answered.detail));
  }
  const data = (answered.data ?? {}) as Record<string, unknown>;
  const meta = (answered.meta ?? {}) as Record<string, unknown>;
  return {
    status: response.status,
    data,
    meta,
    flows: (data.flows ?? []) as Flow[],
    isAuthenticated: meta.is_authenticated === true,
    errors: (answered.errors ?? []) as Answer["errors"],
  };
}

const PROOFS = new Set(["reauthenticate", "mfa_reauthenticate"]);

/**
 * The same for changes of one's own account: asks for the password or a code again where it was given too long ago, and throws a
 * `Problem` for what is refused, with what is wrong with which field.
 */
export async function allauthChange(method: string, path: string, body?: unknown): Promise<Answer> {
  let answer = await allauth(method, path, body);
  const wantsProof = answer.status === 401 && answer.flows.some(({ id }) => PROOFS.has(id));
  if (wantsProof && (await askForProof())) answer = await allauth(method, path, body);
  if (answer.status < 400) return answer;
  const [error] = answer.errors;
  const code = error?.code ?? (wantsProof ? "access.reauthenticate" : `http.${answer.status}`);
  const fields = Object.fromEntries(answer.errors.map(({ param, message }) => [param ?? "", [message]]));
  throw new Problem(answer.status, code, error?.message ?? `HTTP ${answer.status}`, "", fields);
}

export async function signOut(): Promise<void> {
  await allauth("DELETE", "auth/session");
}

/**
 * To the identity provider: the address to send the browser to, which comes back to `comeBackTo` (of this site; with `?error=` when it
 * went wrong). Asked for and gone to by hand, for a form's own redirect to another site is what the page's policy forbids.
 */
export async function providerAddress(
  provider: string,
  process: "login" | "connect",
  comeBackTo: string,
): Promise<string> {
  let response: Response;
  try {
    response = await fetch(`${BASE}auth/provider/redirect`, {
      method: "POST",
      credentials: "same-origin",
      headers: { Accept: "application/json", "X-CSRFToken": csrfToken() },
      body: new URLSearchParams({ provider, process, callback_url: comeBackTo }),
    });
  } catch {
    throw new Problem(0, "console.unreachable", "", "");
  }
  let answered: unknown;
  try {
    answered = await response.json();
  } catch {
    answered = undefined;
  }
  const location = (answered as { location?: unknown } | undefined)?.location;
  if (!response.ok || typeof location !== "string") throw problemOf(response.status, answered);
  return location;
}
