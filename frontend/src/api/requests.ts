import { api, must, mustWithTag } from "@/api/client";
import type { paths } from "@/api/schema.gen";

export interface Attempt {
  /** True: say what would happen, change nothing. */
  dryRun: boolean;
  /** For the audit log. */
  reason: string;
}

/** Without a preview or a reason. */
export const NOW: Attempt = { dryRun: false, reason: "" };

type Method = "get" | "post" | "put" | "patch" | "delete";
type PathWith<M extends Method> = {
  [P in keyof paths]: paths[P][M] extends { responses: unknown } ? P : never;
}[keyof paths];

type Answered = 200 | 201 | 202;
/** What an operation answers. */
type Answer<Operation> = Operation extends { responses: infer Responses }
  ? {
      [S in keyof Responses & Answered]: Responses[S] extends { content: { "application/json": infer Data } }
        ? Data
        : never;
    }[keyof Responses & Answered]
  : never;

type InPath<Operation> = Operation extends { parameters: { path: infer Values } } ? { path: Values } : unknown;
type InQuery<Operation> = Operation extends { parameters: { query?: infer Values } }
  ? { query?: Omit<NonNullable<Values>, "dry_run"> }
  : unknown;
type InBody<Operation> = Operation extends { requestBody?: never }
  ? unknown
  : Operation extends { requestBody?: { content: { "application/json": infer Values } } }
    ? object extends Omit<Values, "reason">
      ? { body?: Omit<Values, "reason"> }
      : { body: Omit<Values, "reason"> }
    : unknown;
type Parts<Operation> = InPath<Operation> & InQuery<Operation> & InBody<Operation>;
/** May be left out when no part is required. */
type Optional<All> = unknown extends All ? [all?: All] : object extends All ? [all?: All] : [all: All];

/** The client for addresses that are known as type parameters only. */
const untyped = api as unknown as {
  request: (method: Method, path: string, init: object) => Promise<{ data?: unknown; response: Response }>;
};

interface Given {
  path?: object;
  query?: object;
  body?: object;
  etag?: string | null;
  signal?: AbortSignal;
}

/** The ETag of a row's version, as the API makes it: what was read is what is changed. */
export function etagOf({ version }: { version: string }): string {
  return `"v${version}"`;
}

/**
 * A change of the API, or its dry run. `etag`: of the version that is changed; another one since is refused. The reason
 * goes into the body.
 */
export function change<M extends Exclude<Method, "get">, P extends PathWith<M>>(
  method: M,
  path: P,
  { dryRun, reason }: Attempt,
  ...[parts]: Optional<Parts<paths[P][M]> & { etag?: string | null; signal?: AbortSignal }>
): Promise<Answer<paths[P][M]>> {
  const { path: inPath, query, body, etag, signal }: Given = parts ?? {};
  const init = {
    params: { path: inPath, query: { dry_run: dryRun, ...query }, header: etag ? { "If-Match": etag } : {} },
    body: { ...body, reason },
    signal,
  };
  return must(untyped.request(method, path, init) as Promise<{ data?: Answer<paths[P][M]>; response: Response }>);
}

type Get<P extends PathWith<"get">> = paths[P]["get"];
type Requested<P extends PathWith<"get">> = Optional<InPath<Get<P>> & InQuery<Get<P>>>;

function ask<P extends PathWith<"get">>(path: P, given: Given | undefined, signal: AbortSignal) {
  const answer = untyped.request("get", path, { params: given, signal });
  return answer as Promise<{ data?: Answer<Get<P>>; response: Response }>;
}

/** A `queryFn` that reads an address of the API. */
export function read<P extends PathWith<"get">>(path: P, ...[given]: Requested<P>) {
  return ({ signal }: { signal: AbortSignal }) => must(ask(path, given, signal));
}

/** The same, with the version that a change can name. */
export function readWithTag<P extends PathWith<"get">>(path: P, ...[given]: Requested<P>) {
  return ({ signal }: { signal: AbortSignal }) => mustWithTag(ask(path, given, signal));
}

type Filters = Readonly<Record<string, string | undefined>>;

/**
 * The `load` of a list; `given.query` is always asked with. The API validates filters: an illegal value is answered
 * with 400.
 */
export function list<P extends PathWith<"get">>(path: P, ...[given]: Requested<P>) {
  return (query: Filters, signal: AbortSignal) =>
    must(ask(path, { ...given, query: { ...query, ...given?.query } }, signal));
}
