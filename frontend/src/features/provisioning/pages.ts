import { IconFileImport } from "@tabler/icons-react";
import type { Page } from "@/ui/page";

export const pages = [
  {
    path: "/provisioning",
    load: () => import("@/features/provisioning/ProvisioningPage"),
    nav: { label: "provisioning", section: "cluster", order: 30, icon: IconFileImport, right: "change_subjects" },
  },
] as const satisfies readonly Page[];
