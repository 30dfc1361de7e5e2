import { GroupsTable } from "@/features/groups/GroupsTable";

/** The consumer groups of a subject. */
export default function GroupsTab({ subject }: { subject: string }) {
  return <GroupsTable subject={subject} />;
}
