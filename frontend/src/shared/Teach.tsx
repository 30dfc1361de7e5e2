import { Code, Group, Paper, Stack, Text, Title } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { meOptions } from "@/api/me";
import { clientAddress, commandLines, DEFAULT_ADDRESS } from "@/shared/clientLines";
import { CopyIcon } from "@/ui/menu/CopyIcon";

/** Code to take along. */
export function Snippet({ code }: { code: string }) {
  return (
    <Group gap="xs" align="flex-start" wrap="nowrap" className="snippet">
      <Code block tabIndex={0} className="grow">
        {code}
      </Code>
      <CopyIcon value={code} isLarge />
    </Group>
  );
}

/** The address of this system's metaserver, for clients. */
export function useClientAddress(): string {
  const { data } = useQuery(meOptions());
  return clientAddress(data?.console.metaserver ?? DEFAULT_ADDRESS, window.location.hostname);
}

/** Commands of `qmq` that work on this system. */
export function Commands({ lines }: { lines: readonly string[] }) {
  return <Snippet code={commandLines(useClientAddress(), lines)} />;
}

/** An empty state: what the page shows, and the commands that create the first item. */
export function Teach({
  title,
  children,
  code,
  commands,
  action,
}: {
  title: string;
  children: ReactNode;
  code?: string;
  commands?: readonly string[];
  action?: ReactNode;
}) {
  return (
    <Paper withBorder p="xl" radius="md" data-teach="">
      <Stack gap="sm" maw={680}>
        <Title order={2} size="h4">
          {title}
        </Title>
        <Text c="dimmed">{children}</Text>
        {commands && <Commands lines={commands} />}
        {code && <Snippet code={code} />}
        {action}
      </Stack>
    </Paper>
  );
}
