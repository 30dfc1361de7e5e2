import { QueryClient } from "@tanstack/react-query";
import {
  createMemoryHistory,
  createRootRoute,
  createRoute,
  createRouter,
  Outlet,
  RouterProvider,
} from "@tanstack/react-router";
import { render, type RenderResult } from "@testing-library/react";
import type { FunctionComponent } from "react";
import { vi } from "vitest";
import { Providers } from "@/app/providers";
import { loadTexts, NAMESPACES, startTexts } from "@/i18n";
import { parseSearch, stringifySearch } from "@/ui/links/urlState";

export interface Mounted extends RenderResult {
  /** The address shown now, with what stands behind the `?`. */
  address: () => string;
}

/** A page as the console shows it, at an address, in English, with nothing cached and no retries. */
export async function mount(
  Page: FunctionComponent,
  address = "/",
  path = address.split("?")[0] ?? "/",
): Promise<Mounted> {
  await startTexts("en");
  await loadTexts(NAMESPACES);
  const root = createRootRoute({ component: Outlet });
  const page = createRoute({ getParentRoute: () => root, path, component: Page });
  const others = createRoute({ getParentRoute: () => root, path: "$", component: () => null });
  const history = createMemoryHistory({ initialEntries: [address] });
  const router = createRouter({ routeTree: root.addChildren([page, others]), history, parseSearch, stringifySearch });
  const client = new QueryClient({ defaultOptions: { queries: { retry: false }, mutations: { retry: false } } });
  await router.load();
  const result = render(
    <Providers client={client}>
      <RouterProvider router={router} />
    </Providers>,
  );
  return { ...result, address: () => router.state.location.href };
}

/** The element that a selector finds on a page or in a dialog of it. Throws without one. */
export function one({ baseElement }: Mounted, selector: string): HTMLElement {
  const found = baseElement.querySelector<HTMLElement>(selector);
  if (found === null) throw new Error(`there is no ${selector}`);
  return found;
}

/** A form's fields, or what the JSON says. */
function read(sent: string, request: Request): unknown {
  const isForm = request.headers.get("Content-Type")?.startsWith("application/x-www-form-urlencoded");
  return isForm ? Object.fromEntries(new URLSearchParams(sent)) : JSON.parse(sent);
}

export type Answers = Readonly<Record<string, unknown>>;

interface Asked {
  method: string;
  url: URL;
  body: unknown;
  etag: string | null;
}

/**
 * Answers for the requests of a test, by "GET /api/v1/…" without the query; a function gets the address and the body,
 * and may return a promise. What isn't named fails the test's request with 404. Returns what was asked; `etag` is that
 * of the version that a change names.
 */
export function answer(answers: Answers): { asked: Asked[] } {
  const asked: Asked[] = [];
  vi.stubGlobal("fetch", async (input: Request | string, init?: RequestInit) => {
    const request = input instanceof Request ? input : new Request(new URL(input, window.location.origin), init);
    const url = new URL(request.url);
    const sent = request.method === "GET" ? "" : await request.text();
    const body = sent ? read(sent, request) : undefined;
    asked.push({ method: request.method, url, body, etag: request.headers.get("If-Match") });
    const known = answers[`${request.method} ${url.pathname}`];
    const made: unknown = await (typeof known === "function"
      ? (known as (url: URL, body: unknown) => unknown)(url, body)
      : known);
    if (made instanceof Response) return made;
    if (made === undefined)
      return Response.json({ code: "test.unknown", title: "not named by the test" }, { status: 404 });
    return Response.json(made);
  });
  return { asked };
}
