import type { SubjectTab } from "@/ui/subjectTabs";

export const subjectTabs: readonly SubjectTab[] = [
  { id: "groups", label: "groups:title", order: 40, load: () => import("@/features/groups/GroupsTable") },
];
