import { lazy, type ComponentType } from "react";
import type { Right } from "@/api/me";
import { withTexts } from "@/i18n";

/**
 * A part of a subject's page, as `features/NAME/subjectParts.ts` lists them in `subjectParts`: several features show
 * something of a subject, in a tab of its page or on its overview.
 */
export interface SubjectPart {
  /** Of a tab, as the address has it: `/subjects/$subject?tab=messages`. */
  id: string;
  place: "tab" | "overview";
  /** Key of its name or heading, with the namespace, which is the page's: `subjects:tab.messages`. */
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

/** Every feature's parts, in the order they are shown; `Shown` loads when it is drawn. */
export const subjectParts = Object.values(found)
  .flat()
  .sort((one, other) => one.order - other.order)
  .map((part) => ({ ...part, Shown: lazy(withTexts(part.load, part.texts)) }));
