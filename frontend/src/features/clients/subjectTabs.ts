import type { SubjectTab } from "@/ui/links/subjectTabs";

export const subjectTabs: readonly SubjectTab[] = [
  {
    id: "clients",
    label: "subjects:tab.clients",
    order: 45,
    texts: ["clients"],
    load: () => import("@/features/clients/ClientsTable"),
  },
];
