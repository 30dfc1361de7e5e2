import type { SubjectPart } from "@/ui/links/subjectParts";

export const subjectParts: readonly SubjectPart[] = [
  {
    id: "clients",
    place: "tab",
    label: "subjects:tab.clients",
    order: 45,
    texts: ["clients"],
    load: () => import("@/features/clients/ClientsTable"),
  },
  {
    id: "senders",
    place: "overview",
    label: "subjects:part.senders",
    order: 10,
    texts: ["clients"],
    load: () => import("@/features/clients/Senders"),
  },
];
