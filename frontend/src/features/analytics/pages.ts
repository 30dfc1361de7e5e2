import { IconChartHistogram } from "@tabler/icons-react";
import type { Page } from "@/ui/page";

export const pages = [
  {
    path: "/analytics",
    load: () => import("@/features/analytics/AnalyticsPage"),
    nav: { label: "analytics", section: "insight", order: 10, icon: IconChartHistogram },
  },
] as const satisfies readonly Page[];
