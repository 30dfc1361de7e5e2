import { Paper, Text } from "@mantine/core";
import type { ReactNode } from "react";

/** One number in large, with what it is called; what it means on hover and focus. */
export function Tile({ label, hint, children }: { label: string; hint: string; children: ReactNode }) {
  return (
    <Paper withBorder p="sm" data-tile={label}>
      <Text data-hint={hint} size="sm" c="dimmed" tabIndex={0}>
        {label}
      </Text>
      <Text fz={24} fw={600} lh={1.3}>
        {children}
      </Text>
    </Paper>
  );
}
