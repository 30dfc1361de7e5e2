import type { SubjectTab } from "@/ui/links/subjectTabs";

export const subjectTabs: readonly SubjectTab[] = [
  {
    id: "overview",
    label: "subjects:tab.overview",
    order: 10,
    texts: ["alerts"],
    load: () => import("@/features/subjects/OverviewTab"),
  },
  {
    id: "placement",
    label: "subjects:tab.placement",
    order: 50,
    texts: ["jobs"],
    load: () => import("@/features/subjects/PlacementTab"),
  },
  {
    id: "settings",
    label: "subjects:tab.settings",
    order: 60,
    texts: ["message"],
    load: () => import("@/features/subjects/SettingsTab"),
  },
];
