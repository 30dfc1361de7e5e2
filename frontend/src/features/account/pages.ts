import type { Page } from "@/ui/page";

/** Reached from the menu with one's name. */
export const pages = [
  { path: "/account", load: () => import("@/features/account/AccountPage") },
] as const satisfies readonly Page[];
