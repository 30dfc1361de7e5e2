import { Code, CopyButton, Group, Paper, Stack, Text, Title, ActionIcon } from "@mantine/core";
import { IconCheck, IconCopy } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { commandLines } from "@/ui/clientLines";
import { useClientAddress } from "@/ui/useClientAddress";

/** Code to take along. */
export function Snippet({ code }: { code: string }) {
  const { t } = useTranslation();
  return (
    <Group gap="xs" align="flex-start" wrap="nowrap" className="snippet">
      <Code block tabIndex={0} className="grow">
        {code}
      </Code>
      <CopyButton value={code}>
        {({ copied, copy }) => (
          <ActionIcon
            data-hint={copied ? t("action.copied") : t("action.copy")}
            variant="subtle"
            onClick={copy}
            aria-label={t("action.copy")}
          >
            {copied ? <IconCheck size={16} aria-hidden /> : <IconCopy size={16} aria-hidden />}
          </ActionIcon>
        )}
      </CopyButton>
    </Group>
  );
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
