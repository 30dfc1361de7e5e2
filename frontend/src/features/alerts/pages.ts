import { IconBell } from "@tabler/icons-react";
import type { Page } from "@/ui/page";

export const pages = [
  {
    path: "/alerts",
    load: () => import("@/features/alerts/AlertsPage"),
    nav: { label: "alerts", section: "insight", order: 20, icon: IconBell },
  },
] as const satisfies readonly Page[];
