import type { Page } from "@/ui/page";

/** Reached from the menu with one's name. */
export const pages: readonly Page[] = [{ path: "/account", load: () => import("@/features/account/AccountPage") }];
