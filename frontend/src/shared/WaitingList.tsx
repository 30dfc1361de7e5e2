import { List } from "@mantine/core";
import type { Schema } from "@/api/client";
import { useResultPart } from "@/shared/jobResult";

/** What moves of subjects wait for, in the viewer's language. */
export function WaitingList({ reasons }: { reasons: readonly Schema<"Waiting">[] }) {
  const textOf = useResultPart();
  return (
    <List size="sm" data-waiting-for={reasons.length}>
      {reasons.map((one) => (
        <List.Item key={`${one.subject} ${one.text}`} className="break">
          {textOf(one) || one.text}
        </List.Item>
      ))}
    </List>
  );
}
