import type { SubjectTab } from "@/ui/subjectTabs";

export const subjectTabs: readonly SubjectTab[] = [
  {
    id: "overview",
    label: "subjects:tab.overview",
    order: 10,
    load: () => import("@/features/subjects/OverviewTab"),
  },
  {
    id: "placement",
    label: "subjects:tab.placement",
    order: 50,
    load: () => import("@/features/subjects/PlacementTab"),
  },
  {
    id: "settings",
    label: "subjects:tab.settings",
    order: 60,
    load: () => import("@/features/subjects/SettingsTab"),
  },
];
