import { useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { useCallback } from "react";

/**
 * What stands behind the `?` of the address: names to texts. The state of every view is kept there, so that a link
 * shows it.
 */
export type Search = Readonly<Record<string, string>>;

/** Read an address's search part; plain text, no JSON: a person can read and write it. */
export function parseSearch(text: string): Search {
  return Object.fromEntries(new URLSearchParams(text));
}

export function stringifySearch(search: Record<string, unknown>): string {
  const entries = Object.entries(search).filter(([, value]) => typeof value === "string" && value !== "");
  const text = new URLSearchParams(entries as [string, string][]).toString();
  return text ? `?${text}` : "";
}

/**
 * The page's search parameters and a way to change some of them; "" or undefined removes one. `push` makes a step that
 * the browser's back button undoes, else the address is replaced.
 */
export function useUrlState(): [Search, (changes: Record<string, string | undefined>, push?: boolean) => void] {
  const search: Search = useSearch({ strict: false });
  const navigate = useNavigate();
  const change = useCallback(
    (changes: Record<string, string | undefined>, push = false) => {
      void navigate({
        to: ".",
        search: (before: Search) => ({ ...before, ...changes }),
        replace: !push,
        resetScroll: false,
      });
    },
    [navigate],
  );
  return [search, change];
}

/** The named parts of the page's address, decoded: `const { subject } = usePathParams("subject")`. */
export function usePathParams<Name extends string>(...names: Name[]): Record<Name, string> {
  const found: Record<string, string | undefined> = useParams({ strict: false });
  return Object.fromEntries(names.map((name) => [name, found[name] ?? ""])) as Record<Name, string>;
}
