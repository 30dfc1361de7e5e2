import type { SubjectTab } from "@/ui/subjectTabs";

export const subjectTabs: readonly SubjectTab[] = [
  { id: "messages", label: "messages:tab.messages", order: 20, load: () => import("@/features/messages/MessagesTab") },
  {
    id: "tail",
    label: "messages:tab.tail",
    order: 30,
    load: () => import("@/features/messages/TailTab"),
    right: "read_messages",
  },
];
