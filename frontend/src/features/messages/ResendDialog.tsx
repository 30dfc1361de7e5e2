import { List, Stack, Text } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { resend, type Resent } from "@/features/messages/queries";
import { SubjectField } from "@/features/messages/SubjectField";
import { count } from "@/format/numbers";
import { PreviewDialog } from "@/ui/dialog/ChangeDialog";
import { useLanguage } from "@/ui/preferences";
import { Sent } from "@/ui/Sent";

interface Props {
  subject: string;
  /** The messages, by their keys. */
  keys: readonly string[];
  opened: boolean;
  onClose: () => void;
  onDone: () => void;
}

/** Send copies of stored messages, to their subject or another one. */
export function ResendDialog({ subject, keys, opened, onClose, onDone }: Props) {
  const { t } = useTranslation("messages");
  const [target, setTarget] = useState(subject);
  return (
    <PreviewDialog<Resent>
      opened={opened}
      onClose={onClose}
      title={t("resend.title", { count: keys.length })}
      run={(attempt) => resend(subject, keys, target, attempt)}
      show={(preview) => <Outcome preview={preview} />}
      isWorthIt={(preview) => preview.messages > 0}
      actionLabel={t("resend.action")}
      inputs={JSON.stringify([keys, target])}
      isReady={target !== ""}
      doneMessage={t("resend.done")}
      onDone={onDone}
    >
      <SubjectField label={t("send.to")} value={target} onChange={setTarget} />
      <Text size="sm" c="dimmed">
        {t("send.copy_says")}
      </Text>
    </PreviewDialog>
  );
}

/** Most messages that are named one by one because they can't be sent. */
const PROBLEMS_MAX = 10;

function Outcome({ preview }: { preview: Resent }) {
  const { t } = useTranslation("messages");
  const language = useLanguage();
  const problems = preview.results.filter(({ problem }) => problem !== "");
  const { messages, to_subject: subject } = preview;
  return (
    <Stack gap="xs">
      <Text size="sm">{t("resend.preview", { count: messages, shown: count(messages, language), subject })}</Text>
      {problems.length > 0 && (
        <>
          <Text size="sm">
            {t("resend.left_out", { count: problems.length, shown: count(problems.length, language) })}
          </Text>
          <List size="sm">
            {problems.slice(0, PROBLEMS_MAX).map(({ broker_group, sequence, problem }) => (
              <List.Item key={`${broker_group}:${sequence}`}>
                {broker_group}:{sequence}: <Sent text={problem} />
              </List.Item>
            ))}
          </List>
        </>
      )}
    </Stack>
  );
}
