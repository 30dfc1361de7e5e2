import { IconLayoutDashboard } from "@tabler/icons-react";
import type { Page } from "@/ui/page";

export const pages = [
  {
    path: "/",
    isFirst: true,
    load: () => import("@/features/overview/OverviewPage"),
    nav: { label: "overview", section: "messages", order: 0, icon: IconLayoutDashboard },
  },
] as const satisfies readonly Page[];
