import { IconServer2 } from "@tabler/icons-react";
import type { Page } from "@/ui/page";

export const pages = [
  {
    path: "/brokers",
    load: () => import("@/features/brokers/BrokersPage"),
    nav: { label: "brokers", section: "cluster", order: 10, icon: IconServer2 },
  },
  { path: "/brokers/$name", load: () => import("@/features/brokers/BrokerPage") },
] as const satisfies readonly Page[];
