import { IconCalendarClock } from "@tabler/icons-react";
import type { Page } from "@/ui/page";

export const pages = [
  {
    path: "/delayed",
    load: () => import("@/features/delayed/DelayedPage"),
    nav: { label: "delayed", section: "messages", order: 30, icon: IconCalendarClock },
  },
] as const satisfies readonly Page[];
