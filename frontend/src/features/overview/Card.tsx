import { Paper, Text } from "@mantine/core";
import type { ReactNode } from "react";

/** A framed part of the overview, with its heading. */
export function Card({ title, children, ...rest }: { title: string; children: ReactNode; "data-attention"?: number }) {
  return (
    <Paper withBorder p="md" {...rest}>
      <Text component="h2" fw={600} mb="xs">
        {title}
      </Text>
      {children}
    </Paper>
  );
}
