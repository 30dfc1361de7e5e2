import type { SubjectPart } from "@/ui/links/subjectParts";

export const subjectParts: readonly SubjectPart[] = [
  {
    id: "messages",
    place: "tab",
    label: "subjects:tab.messages",
    order: 20,
    texts: ["messages", "message"],
    load: () => import("@/features/messages/MessagesTab"),
  },
  {
    id: "tail",
    place: "tab",
    label: "subjects:tab.tail",
    order: 30,
    texts: ["messages", "message"],
    load: () => import("@/features/messages/TailTab"),
    right: "read_messages",
  },
  {
    id: "newest",
    place: "overview",
    label: "subjects:part.newest",
    order: 20,
    texts: ["messages"],
    load: () => import("@/features/messages/Newest"),
  },
];
