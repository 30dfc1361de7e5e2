import createClient from "openapi-fetch";
import type { components, paths } from "@/api/schema.gen";
import { Problem, problemOf } from "@/api/problem";
import { askForProof } from "@/api/proof";
import { reportSignedOut } from "@/api/signedOut";

/** A shape of the API by its name in the OpenAPI file. */
export type Schema<Name extends keyof components["schemas"]> = components["schemas"][Name];
/** What every change answers, in a dry run too. */
export type Change = Schema<"Change">;

const SAFE = new Set(["GET", "HEAD", "OPTIONS"]);

/** The CSRF token that Django wants back with every change; behind HTTPS its cookie has a prefix. */
export function csrfToken(cookies: string = document.cookie): string {
  const found = /(?:^|;\s*)(?:__Host-)?qmq_csrf=([^;]*)/.exec(cookies);
  return found?.[1] ?? "";
}

/** A key that makes a POST be done once however often it is sent; crypto.randomUUID is not there over plain HTTP. */
function onceKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function problemIn(response: Response): Promise<Problem> {
  let body: unknown;
  try {
    body = await response.clone().json();
  } catch {
    body = undefined; // Not of the API: a proxy's page, say. Only its status is of use.
  }
  return problemOf(response.status, body);
}

async function send(request: Request): Promise<Response> {
  const again = request.clone();
  let response: Response;
  try {
    response = await fetch(request);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem(0, "console.unreachable", "", "");
  }
  if (response.ok) return response;
  const problem = await problemIn(response);
  if (problem.code === "access.reauthenticate" && (await askForProof())) {
    // Django may have turned the token over with the new proof.
    again.headers.set("X-CSRFToken", csrfToken());
    response = await fetch(again);
    if (response.ok) return response;
    throw await problemIn(response);
  }
  if (response.status === 401) reportSignedOut();
  throw problem;
}

/**
 * The API, typed by its OpenAPI file. Every call either gives its data or throws a `Problem`:
 * `const { data } = await api.GET("/api/v1/subjects/", { params: { query }, signal })`.
 */
export const api = createClient<paths, "application/json">({
  baseUrl: window.location.origin,
  credentials: "same-origin",
  fetch: send,
});

api.use({
  onRequest({ request }) {
    if (SAFE.has(request.method)) return undefined;
    request.headers.set("X-CSRFToken", csrfToken());
    if (request.method === "POST" && !request.headers.has("Idempotency-Key")) {
      request.headers.set("Idempotency-Key", onceKey());
    }
    return request;
  },
});

/** The data of an answer that has some. Errors were thrown before; an empty answer here is a bug. */
export async function must<Data>(call: Promise<{ data?: Data; response: Response }>): Promise<Data> {
  return (await mustWithTag(call)).data;
}

/** The same, with the version that a change can name in If-Match. */
export async function mustWithTag<Data>(
  call: Promise<{ data?: Data; response: Response }>,
): Promise<{ data: Data; etag: string | null }> {
  const { data, response } = await call;
  if (data === undefined) throw new Problem(response.status, "console.unexpected", `HTTP ${response.status}`, "");
  return { data, etag: response.headers.get("ETag") };
}
