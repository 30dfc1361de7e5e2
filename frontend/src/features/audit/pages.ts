import { IconHistory } from "@tabler/icons-react";
import type { Page } from "@/ui/page";

export const pages = [
  {
    path: "/audit",
    load: () => import("@/features/audit/AuditPage"),
    nav: { label: "audit", section: "insight", order: 30, icon: IconHistory, right: "read_audit" },
  },
] as const satisfies readonly Page[];
