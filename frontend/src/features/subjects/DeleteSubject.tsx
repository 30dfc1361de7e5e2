import { Button, Group, Paper, Text, Title } from "@mantine/core";
import { IconTrash } from "@tabler/icons-react";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { deleteSubject, useRefresh, type Subject } from "@/features/subjects/queries";
import { ChangeDialog } from "@/ui/ChangeDialog";

/** Delete an archived subject that holds nothing and has no client. */
export function DeleteSubject({ subject, etag }: { subject: Subject; etag: string | null }) {
  const { t } = useTranslation("subjects");
  const navigate = useNavigate();
  const refresh = useRefresh();
  // The version that was read when the dialog was opened.
  const [dialog, setDialog] = useState({ etag, isOpen: false });
  const reason = subject.may_change
    ? subject.is_archived
      ? undefined
      : t("delete.archive_first")
    : t("settings.may_not", { owner: subject.owner ?? t("owner.nobody") });
  return (
    <Paper withBorder p="md" component="section">
      <Group justify="space-between" align="center" gap="md">
        <div className="grow">
          <Title order={2} size="h4">
            {t("delete.title")}
          </Title>
          <Text size="sm" c="dimmed">
            {t("delete.text")}
          </Text>
        </div>
        <Button
          variant="default"
          color="red"
          leftSection={<IconTrash size={16} aria-hidden />}
          disabled={reason !== undefined}
          title={reason}
          onClick={() => setDialog({ etag, isOpen: true })}
          data-action="delete"
        >
          {t("delete.action")}
        </Button>
      </Group>
      <ChangeDialog
        opened={dialog.isOpen}
        onClose={() => setDialog({ ...dialog, isOpen: false })}
        title={t("delete.dialog", { name: subject.name })}
        actionLabel={t("delete.action")}
        doneMessage={t("delete.done", { name: subject.name })}
        confirmName={subject.name}
        run={(attempt) => deleteSubject(subject.name, dialog.etag, attempt)}
        onDone={() => {
          void navigate({ to: "/subjects" }).then(refresh);
        }}
      />
    </Paper>
  );
}
