import type { SubjectPart } from "@/ui/links/subjectParts";

export const subjectParts: readonly SubjectPart[] = [
  {
    id: "overview",
    place: "tab",
    label: "subjects:tab.overview",
    order: 10,
    texts: ["alerts"],
    load: () => import("@/features/subjects/OverviewTab"),
  },
  {
    id: "placement",
    place: "tab",
    label: "subjects:tab.placement",
    order: 50,
    texts: ["jobs"],
    load: () => import("@/features/subjects/PlacementTab"),
  },
  {
    id: "settings",
    place: "tab",
    label: "subjects:tab.settings",
    order: 60,
    texts: [],
    load: () => import("@/features/subjects/SettingsTab"),
  },
];
