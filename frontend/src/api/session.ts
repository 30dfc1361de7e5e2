import { csrfToken } from "@/api/client";
import { Problem, problemOf } from "@/api/problem";
import { askForProof } from "@/api/proof";
import { textOf } from "@/format/values";

/** Signing in and out: allauth's JSON addresses below `/_allauth/browser/v1/` (docs/accounts.md). */

const BASE = "/_allauth/browser/v1/";

export interface Flow {
  id: string;
  is_pending?: boolean;
}

/**
 * What such an address answers: 200 done; 401 signed out, or a flow is pending (`mfa_authenticate`); 400 with errors by
 * field.
 */
export interface Answer {
  status: number;
  data: Readonly<Record<string, unknown>>;
  meta: Readonly<Record<string, unknown>>;
  flows: readonly Flow[];
  errors: readonly { message: string; code: string; param?: string }[];
}

/** The response of one of them and the JSON in it; {} where there is none. */
async function send(
  path: string,
  { headers, ...init }: Omit<RequestInit, "headers"> & { headers?: Record<string, string> },
): Promise<[Response, Record<string, unknown>]> {
  const all = { Accept: "application/json", "X-CSRFToken": csrfToken(), ...headers };
  let response: Response;
  try {
    response = await fetch(BASE + path, { ...init, credentials: "same-origin", headers: all });
  } catch {
    throw new Problem(0, "console.unreachable", "", "");
  }
  try {
    return [response, (await response.json()) as Record<string, unknown>];
  } catch {
    return [response, {}];
  }
}

/**
 * Ask one of them. Throws a `Problem` when no such answer came: the network, a limit (429), the database or Redis away
 * (503).
 */
export async function allauth(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<Answer> {
  const [response, answered] = await send(path, {
    method,
    signal,
    // Sign out also if the page is closed at once.
    keepalive: method === "DELETE",
    headers: { "Content-Type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  if (response.status === 429 || response.status >= 500 || (response.status === 403 && !("meta" in answered))) {
    const code = textOf(answered.code) || `http.${response.status}`;
    throw new Problem(response.status, code, textOf(answered.title), textOf(answered.detail));
  }
  const data = (answered.data ?? {}) as Record<string, unknown>;
  const meta = (answered.meta ?? {}) as Record<string, unknown>;
  return {
    status: response.status,
    data,
    meta,
    flows: (data.flows ?? []) as Flow[],
    errors: (answered.errors ?? []) as Answer["errors"],
  };
}

const PROOFS = new Set(["reauthenticate", "mfa_reauthenticate"]);

/**
 * The same for changes of one's own account: asks for the password or a code again where it was given too long ago, and
 * throws a `Problem` for what is refused, with what is wrong with which field.
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
 * To the identity provider: the address to send the browser to, which comes back to `comeBackTo` (of this site; with
 * `?error=` when it went wrong). Asked for and gone to by hand, for a form's own redirect to another site is what the
 * page's policy forbids.
 */
export async function providerAddress(
  provider: string,
  process: "login" | "connect",
  comeBackTo: string,
): Promise<string> {
  const body = new URLSearchParams({ provider, process, callback_url: comeBackTo });
  const [response, answered] = await send("auth/provider/redirect", { method: "POST", body });
  const location = textOf(answered.location);
  if (!response.ok || !location) throw problemOf(response.status, answered);
  return location;
}
