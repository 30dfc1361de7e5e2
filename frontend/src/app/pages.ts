import type { Page } from "@/ui/page";

const found = import.meta.glob<readonly Page[]>("../features/*/pages.ts", { eager: true, import: "pages" });

/** Every feature's pages. */
export const pages: readonly Page[] = Object.values(found).flat();
