import { Text, Title } from "@mantine/core";
import type { ReactNode } from "react";

/** A part of a page, with its heading. */
export function Part({ title, note, children }: { title: string; note?: string; children: ReactNode }) {
  return (
    <section>
      <Title order={2} size="h4" mb={note ? 4 : "xs"}>
        {title}
      </Title>
      {note && (
        <Text size="sm" c="dimmed" mb="xs">
          {note}
        </Text>
      )}
      {children}
    </section>
  );
}
