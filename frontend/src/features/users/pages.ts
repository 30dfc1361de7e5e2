import { IconUsers } from "@tabler/icons-react";
import type { Page } from "@/ui/page";

export const pages = [
  {
    path: "/users",
    load: () => import("@/features/users/UsersPage"),
    nav: { label: "users", section: "settings", order: 10, icon: IconUsers, right: "change_accounts" },
  },
  { path: "/users/$id", load: () => import("@/features/users/UserPage") },
] as const satisfies readonly Page[];
