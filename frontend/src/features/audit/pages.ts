import { IconHistory } from "@tabler/icons-react";
import type { Page } from "@/ui/page";

export const pages: readonly Page[] = [
  {
    path: "/audit",
    load: () => import("@/features/audit/AuditPage"),
    nav: { label: "audit", section: "insight", order: 30, icon: IconHistory, right: "read_audit" },
  },
];
