import type { SubjectPart } from "@/ui/links/subjectParts";

export const subjectParts: readonly SubjectPart[] = [
  {
    id: "groups",
    place: "tab",
    label: "subjects:tab.groups",
    order: 40,
    texts: ["groups"],
    load: () => import("@/features/groups/GroupsTable"),
  },
];
