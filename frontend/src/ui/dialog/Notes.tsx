import { List } from "@mantine/core";
import { useReason, type Explanation } from "@/ui/reasons";

/** Notes of a change: what happens next, and what the change does not do. */
export function Notes({ notes }: { notes: readonly Explanation[] }) {
  const noteOf = useReason();
  return (
    <List size="sm">
      {notes.map((note) => (
        <List.Item key={note.text}>{noteOf(note, note.text)}</List.Item>
      ))}
    </List>
  );
}
