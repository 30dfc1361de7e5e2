import { Text, Title } from "@mantine/core";
import type { ReactNode } from "react";

interface Props {
  title: string;
  note?: string;
  /** Whether it is a region of the page, called by its title. */
  isRegion?: boolean;
  children: ReactNode;
}

/** A part of a page, with its heading. */
export function Part({ title, note, isRegion = false, children }: Props) {
  return (
    <section aria-label={isRegion ? title : undefined}>
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
