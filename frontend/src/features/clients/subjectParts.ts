import type { SubjectPart } from "@/ui/links/subjectParts";

export const subjectParts: readonly SubjectPart[] = [
  {
    id: "senders",
    label: "subjects:part.senders",
    order: 10,
    texts: ["clients"],
    load: () => import("@/features/clients/Senders"),
  },
];
