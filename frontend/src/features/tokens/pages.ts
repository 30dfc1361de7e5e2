import { IconKey } from "@tabler/icons-react";
import type { Page } from "@/ui/page";

export const pages = [
  {
    path: "/tokens",
    load: () => import("@/features/tokens/TokensPage"),
    nav: { label: "tokens", section: "settings", order: 30, icon: IconKey },
  },
] as const satisfies readonly Page[];
