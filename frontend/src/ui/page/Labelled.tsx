import { Text } from "@mantine/core";
import { useId, type ReactNode } from "react";

/** A label above an input that takes none of its own: `children` gets the ID for `aria-labelledby`. */
export function Labelled({ label, children }: { label: string; children: (id: string) => ReactNode }) {
  const id = useId();
  return (
    <div>
      <Text size="sm" fw={500} id={id}>
        {label}
      </Text>
      {children(id)}
    </div>
  );
}
