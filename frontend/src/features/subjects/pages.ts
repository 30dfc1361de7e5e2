import { IconMessages } from "@tabler/icons-react";
import type { Page } from "@/ui/page";

export const pages = [
  {
    path: "/subjects",
    load: () => import("@/features/subjects/SubjectsPage"),
    nav: { label: "subjects", section: "messages", order: 10, icon: IconMessages },
  },
  { path: "/subjects/$subject", load: () => import("@/features/subjects/SubjectPage") },
] as const satisfies readonly Page[];
