import { Button, Group, Paper, Text, Title } from "@mantine/core";
import { IconArchive, IconArchiveOff } from "@tabler/icons-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { setArchived, useRefresh, type Subject } from "@/features/subjects/queries";
import { ChangeDialog } from "@/ui/ChangeDialog";
import { Instant } from "@/ui/Instant";

/** Let a subject take no messages any more, or take that back. */
export function ArchiveSubject({ subject, etag }: { subject: Subject; etag: string | null }) {
  const { t } = useTranslation("subjects");
  const refresh = useRefresh();
  // What was read when the dialog was opened is what its plan is about.
  const [dialogState, setDialogState] = useState({ isRestore: false, etag, isOpen: false });
  const isRestore = subject.is_archived;
  const which = isRestore ? "restore" : "archive";
  const dialog = dialogState.isRestore ? "restore" : "archive";
  return (
    <Paper withBorder p="md" component="section">
      <Group justify="space-between" align="center" gap="md">
        <div className="grow">
          <Title order={2} size="h4">
            {t(`${which}.title`)}
          </Title>
          <Text size="sm" c="dimmed">
            {t(`${which}.text`)}{" "}
            {isRestore && (
              <>
                {t("archive.since")} <Instant at={subject.archived_at} />
              </>
            )}
          </Text>
        </div>
        <Button
          variant="default"
          color={isRestore ? undefined : "red"}
          leftSection={isRestore ? <IconArchiveOff size={16} aria-hidden /> : <IconArchive size={16} aria-hidden />}
          disabled={!subject.may_change}
          title={subject.may_change ? undefined : t("settings.may_not", { owner: subject.owner ?? t("owner.nobody") })}
          onClick={() => setDialogState({ isRestore, etag, isOpen: true })}
          data-action={which}
        >
          {t(`${which}.action`)}
        </Button>
      </Group>
      <ChangeDialog
        opened={dialogState.isOpen}
        onClose={() => setDialogState({ ...dialogState, isOpen: false })}
        title={t(`${dialog}.dialog`, { name: subject.name })}
        actionLabel={t(`${dialog}.action`)}
        doneMessage={t(`${dialog}.done`, { name: subject.name })}
        // Restoring refuses nobody anything.
        confirmName={dialogState.isRestore ? undefined : subject.name}
        run={(attempt) => setArchived(subject.name, !dialogState.isRestore, dialogState.etag, attempt)}
        onDone={refresh}
      />
    </Paper>
  );
}
