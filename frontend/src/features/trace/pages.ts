import { IconRoute } from "@tabler/icons-react";
import type { Page } from "@/ui/page";

export const pages = [
  {
    path: "/trace",
    load: () => import("@/features/trace/FindPage"),
    nav: { label: "trace", section: "messages", order: 50, icon: IconRoute },
  },
  { path: "/trace/$subject/$brokerGroup/$sequence", load: () => import("@/features/trace/TracePage") },
] as const satisfies readonly Page[];
