import type { Page } from "@/ui/page";

export const pages = [
  { path: "/sign-in", isPublic: true, isFirst: true, load: () => import("@/features/sign_in/SignInPage") },
] as const satisfies readonly Page[];
