import { IconRepeat } from "@tabler/icons-react";
import type { Page } from "@/ui/page";

export const pages = [
  {
    path: "/tasks",
    load: () => import("@/features/tasks/TasksPage"),
    nav: { label: "tasks", section: "cluster", order: 20, icon: IconRepeat },
  },
] as const satisfies readonly Page[];
