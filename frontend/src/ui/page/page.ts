import type { ComponentType } from "react";

/** A page of a feature, as app/pages.ts lists them; app/router.tsx makes routes of them. */
export interface Page {
  /** `/subjects/$subject`: names with a dollar are parameters, read with `usePathParams`. */
  path: string;
  load: () => Promise<{ default: ComponentType }>;
  /** What links to it may name behind the `?`; anything without. */
  search?: readonly string[];
  /** For users who are not signed in; shown without the layout. */
  isPublic?: boolean;
  /** Namespaces of its texts, beside those of the layout. */
  texts: readonly string[];
  /** Its page of the documentation: `how-to/send`. */
  docs: string;
  /** Where the navigation shows it; not at all without. */
  nav?: NavEntry;
}

export interface NavEntry {
  /** Key in the namespace `common`, below `nav.`. */
  label: string;
  section: "messages" | "cluster" | "insight" | "settings";
  order: number;
  icon: ComponentType<{ size?: number | string; stroke?: number | string; "aria-hidden"?: boolean }>;
  /** Not shown to users who lack it. */
  right?: string;
}
