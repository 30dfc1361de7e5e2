import { isRecord, textOf } from "@/format/values";

/** An error as the API reports it: RFC 9457, with a stable code to act on and a sentence to show. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    /** Stable and dotted, as in docs: `subject.exists`. Ours begin with `console.`: no answer came. */
    readonly code: string,
    readonly title: string,
    readonly detail: string,
    /** What is wrong with which field of the request. */
    readonly fields: Readonly<Record<string, readonly string[]>> = {},
    readonly requestId: string = "",
  ) {
    super(detail || title);
    this.name = "Problem";
  }

  /** Whether the same request may go well later, with nothing changed. */
  get isTransient(): boolean {
    return this.status === 0 || this.status === 429 || this.status >= 500;
  }
}

function fieldsOf(value: unknown): Record<string, string[]> {
  if (!isRecord(value)) return {};
  return Object.fromEntries(
    Object.entries(value).map(([name, messages]) => [
      name,
      (Array.isArray(messages) ? messages : [messages]).map((one) => String(one)),
    ]),
  );
}

/** From the body of an answer that isn't 2xx: the API's, that of a proxy before it, or none. */
export function problemOf(status: number, body: unknown): Problem {
  if (isRecord(body) && typeof body.code === "string") {
    return new Problem(
      status,
      body.code,
      textOf(body.title),
      textOf(body.detail),
      fieldsOf(body.fields),
      textOf(body.request_id),
    );
  }
  return new Problem(status, "console.unexpected", `HTTP ${status}`, "");
}

/** Any thrown value as a problem, so that pages have one kind of error to show. */
export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof Error) return new Problem(0, "console.failed", error.message, "");
  return new Problem(0, "console.failed", String(error), "");
}
