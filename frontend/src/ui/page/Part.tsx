import { Group, Text, Title } from "@mantine/core";
import type { ReactNode } from "react";

interface Props {
  title: string;
  note?: string;
  /** Whether it is a region of the page, called by its title. */
  isRegion?: boolean;
  /** Controls beside the heading. */
  aside?: ReactNode;
  children: ReactNode;
}

/** A part of a page, with its heading. */
export function Part({ title, note, isRegion = false, aside, children }: Props) {
  return (
    <section aria-label={isRegion ? title : undefined}>
      <Group justify="space-between" gap="xs" mb={note ? 4 : "xs"}>
        <Title order={2} size="h4">
          {title}
        </Title>
        {aside}
      </Group>
      {note && (
        <Text size="sm" c="dimmed" mb="xs">
          {note}
        </Text>
      )}
      {children}
    </section>
  );
}
