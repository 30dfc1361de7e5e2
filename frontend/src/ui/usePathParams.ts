import { useParams } from "@tanstack/react-router";

/** The named parts of the page's address, decoded: `const { subject } = usePathParams("subject")`. */
export function usePathParams<Name extends string>(...names: Name[]): Record<Name, string> {
  const found: Record<string, string | undefined> = useParams({ strict: false });
  return Object.fromEntries(names.map((name) => [name, found[name] ?? ""])) as Record<Name, string>;
}
