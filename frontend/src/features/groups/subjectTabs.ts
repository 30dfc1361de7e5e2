import type { SubjectTab } from "@/ui/links/subjectTabs";

export const subjectTabs: readonly SubjectTab[] = [
  {
    id: "groups",
    label: "subjects:tab.groups",
    order: 40,
    texts: ["groups"],
    load: () => import("@/features/groups/GroupsTable"),
  },
];
