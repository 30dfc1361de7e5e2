import { Paper, Text } from "@mantine/core";
import type { ReactNode } from "react";

/** A framed part of the overview, with its heading. */
export function Card({ title, children }: { title: string; children: ReactNode }) {
  return (
    <Paper withBorder px="md" py="sm">
      <Text component="h2" fw={600} mb={6}>
        {title}
      </Text>
      {children}
    </Paper>
  );
}
