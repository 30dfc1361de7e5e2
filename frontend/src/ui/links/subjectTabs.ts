import type { ComponentType } from "react";
import type { Right } from "@/api/me";

/**
 * A tab of a subject's page, as `features/NAME/subjectTabs.ts` lists them in `subjectTabs`: several features show
 * something of a subject.
 */
export interface SubjectTab {
  /** As the address has it: `/subjects/$subject?tab=messages`. */
  id: string;
  /** Key of its name, with the namespace, which is the page's: `subjects:tab.messages`. */
  label: string;
  order: number;
  /** Namespaces of its texts, beside the page's. */
  texts: readonly string[];
  load: () => Promise<{ default: ComponentType<{ subject: string }> }>;
  /** Not shown to users who lack it for this subject. */
  right?: Right;
}

const found = import.meta.glob<readonly SubjectTab[]>("../../features/*/subjectTabs.ts", {
  eager: true,
  import: "subjectTabs",
});

/** Every feature's tabs, in the order they are shown. */
export const subjectTabs: readonly SubjectTab[] = Object.values(found)
  .flat()
  .sort((one, other) => one.order - other.order);
