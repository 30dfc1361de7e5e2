import { IconUsersGroup } from "@tabler/icons-react";
import type { Page } from "@/ui/page";

export const pages = [
  {
    path: "/groups",
    load: () => import("@/features/groups/GroupsPage"),
    nav: { label: "groups", section: "messages", order: 20, icon: IconUsersGroup },
  },
  { path: "/groups/$subject/$group", load: () => import("@/features/groups/GroupPage") },
] as const satisfies readonly Page[];
