import type { Page } from "@/ui/page";

export const pages: readonly Page[] = [
  { path: "/sign-in", isPublic: true, isFirst: true, load: () => import("@/features/sign_in/SignInPage") },
];
