import { IconMailX } from "@tabler/icons-react";
import type { Page } from "@/ui/page";

export const pages = [
  {
    path: "/dead-letters",
    load: () => import("@/features/dead_letters/CountsPage"),
    nav: { label: "dead_letters", section: "messages", order: 40, icon: IconMailX },
  },
  { path: "/dead-letters/$subject/$group", load: () => import("@/features/dead_letters/LettersPage") },
] as const satisfies readonly Page[];
