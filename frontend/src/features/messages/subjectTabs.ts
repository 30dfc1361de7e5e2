import type { SubjectTab } from "@/ui/links/subjectTabs";

export const subjectTabs: readonly SubjectTab[] = [
  {
    id: "messages",
    label: "subjects:tab.messages",
    order: 20,
    texts: ["messages", "message"],
    load: () => import("@/features/messages/MessagesTab"),
  },
  {
    id: "tail",
    label: "subjects:tab.tail",
    order: 30,
    texts: ["messages", "message"],
    load: () => import("@/features/messages/TailTab"),
    right: "read_messages",
  },
];
