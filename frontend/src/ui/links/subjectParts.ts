import type { ComponentType } from "react";
import type { Right } from "@/api/me";

/**
 * A part of the overview of a subject's page, as `features/NAME/subjectParts.ts` lists them in `subjectParts`: what
 * other features show there.
 */
export interface SubjectPart {
  id: string;
  /** Key of its heading, with the namespace, which is the page's: `subjects:part.senders`. */
  label: string;
  order: number;
  /** Namespaces of its texts, beside the page's. */
  texts: readonly string[];
  load: () => Promise<{ default: ComponentType<{ subject: string }> }>;
  /** Not shown to users who lack it for this subject. */
  right?: Right;
}

const found = import.meta.glob<readonly SubjectPart[]>("../../features/*/subjectParts.ts", {
  eager: true,
  import: "subjectParts",
});

/** Every feature's parts, in the order they are shown. */
export const subjectParts: readonly SubjectPart[] = Object.values(found)
  .flat()
  .sort((one, other) => one.order - other.order);
