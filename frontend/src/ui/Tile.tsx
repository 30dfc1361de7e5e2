import { Paper, Text, Tooltip } from "@mantine/core";
import type { ReactNode } from "react";

/** One number in large, with what it is called; what it means on hover and focus. */
export function Tile({ label, hint, children }: { label: string; hint: string; children: ReactNode }) {
  return (
    <Paper withBorder p="sm" data-tile={label}>
      <Tooltip label={hint} multiline maw={320}>
        <Text size="sm" c="dimmed" tabIndex={0}>
          {label}
        </Text>
      </Tooltip>
      <Text fz={24} fw={600} lh={1.3}>
        {children}
      </Text>
    </Paper>
  );
}
