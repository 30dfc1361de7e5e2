import { Stack, Text } from "@mantine/core";
import type { ReactNode } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { producerProgram, shellWord } from "@/shared/clientLines";
import { Snippet, Teach, useClientAddress } from "@/shared/Teach";

/** How to send a first message, from the command line and from Python. */
export function FirstMessage({ subject, title, children }: { subject: string; title: string; children: ReactNode }) {
  const { t } = useTranslation("subjects");
  const address = useClientAddress();
  return (
    <Teach
      title={title}
      commands={[`qmq produce ${shellWord(subject)} -p hello=world`]}
      action={
        <Stack gap="xs">
          <Text size="sm" c="dimmed">
            {t("first.python")}
          </Text>
          <Snippet code={producerProgram(address, subject)} />
        </Stack>
      }
    >
      {children}
    </Teach>
  );
}
