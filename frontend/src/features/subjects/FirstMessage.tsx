import { Stack, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { shellWord } from "@/features/subjects/shell";
import { Snippet, Teach } from "@/ui/Teach";

/** How a first message gets here: from Python and from the command line. */
export function FirstMessage({ subject, title, children }: { subject: string; title: string; children: ReactNode }) {
  const { t } = useTranslation("subjects");
  const python = `from qmq import Producer

async with Producer("${window.location.hostname}:8080", app="my-app") as producer:
    await producer.send(${JSON.stringify(subject)}, {"hello": "world"})`;
  return (
    <Teach
      title={title}
      code={`qmq produce ${shellWord(subject)} -p hello=world`}
      action={
        <Stack gap="xs">
          <Text size="sm" c="dimmed">
            {t("first.python")}
          </Text>
          <Snippet code={python} />
          <Text size="sm" c="dimmed">
            {t("first.address")}
          </Text>
        </Stack>
      }
    >
      {children}
    </Teach>
  );
}
