import { IconUsersGroup } from "@tabler/icons-react";
import type { Page } from "@/ui/page";

export const pages = [
  {
    path: "/teams",
    load: () => import("@/features/teams/TeamsPage"),
    nav: { label: "teams", section: "settings", order: 20, icon: IconUsersGroup },
  },
  { path: "/teams/$team", load: () => import("@/features/teams/TeamPage") },
] as const satisfies readonly Page[];
