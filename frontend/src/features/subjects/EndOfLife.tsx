import { Button, Group, Paper, Text, Title } from "@mantine/core";
import { IconArchive, IconArchiveOff, IconTrash } from "@tabler/icons-react";
import { useNavigate } from "@tanstack/react-router";
import { useState, type ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { change } from "@/api/requests";
import { setArchived, subjectsKey, type Subject } from "@/features/subjects/queries";
import { ChangeDialog } from "@/ui/ChangeDialog";
import { Instant } from "@/ui/Instant";

type Deed = "archive" | "restore" | "delete";
const ICONS = { archive: IconArchive, restore: IconArchiveOff, delete: IconTrash };

interface Props {
  subject: Subject;
  etag: string | null;
}

/** What a button does, and why it can't be used. */
function Row({ deed, since, why, onOpen }: { deed: Deed; since?: ReactNode; why?: string; onOpen: () => void }) {
  const { t } = useTranslation("subjects");
  const Icon = ICONS[deed];
  return (
    <Group justify="space-between" align="center" gap="md">
      <div className="grow">
        <Title order={2} size="h4">
          {t(`${deed}.title`)}
        </Title>
        <Text size="sm" c="dimmed">
          {t(`${deed}.text`)} {since}
        </Text>
      </div>
      <Button
        variant="default"
        color={deed === "restore" ? undefined : "red"}
        leftSection={<Icon size={16} aria-hidden />}
        disabled={why !== undefined}
        title={why}
        onClick={onOpen}
        data-action={deed}
      >
        {t(`${deed}.action`)}
      </Button>
    </Group>
  );
}

function useMayNot({ may_change: mayChange, owner }: Subject): string | undefined {
  const { t } = useTranslation("subjects");
  return mayChange ? undefined : t("settings.may_not", { owner: owner ?? t("owner.nobody") });
}

/** Let a subject take no messages any more, or take that back. */
export function ArchiveSubject({ subject, etag }: Props) {
  const { t } = useTranslation("subjects");
  const { name, is_archived: isArchived } = subject;
  // What was read when the dialog was opened is what its plan is about.
  const [dialogState, setDialogState] = useState({ deed: "archive" as Deed, etag, isOpen: false });
  const deed = isArchived ? "restore" : "archive";
  const since = isArchived && (
    <>
      {t("archive.since")} <Instant at={subject.archived_at} />
    </>
  );
  return (
    <Paper withBorder p="md" component="section">
      <Row
        deed={deed}
        since={since}
        why={useMayNot(subject)}
        onOpen={() => setDialogState({ deed, etag, isOpen: true })}
      />
      <ChangeDialog
        opened={dialogState.isOpen}
        onClose={() => setDialogState({ ...dialogState, isOpen: false })}
        title={t(`${dialogState.deed}.dialog`, { name })}
        actionLabel={t(`${dialogState.deed}.action`)}
        doneMessage={t(`${dialogState.deed}.done`, { name })}
        // Restoring refuses nobody anything.
        confirmName={dialogState.deed === "restore" ? undefined : name}
        run={(attempt) => setArchived(name, dialogState.deed === "archive", dialogState.etag, attempt)}
        refreshes={[subjectsKey]}
      />
    </Paper>
  );
}

/** Delete an archived subject that holds nothing and has no client. */
export function DeleteSubject({ subject, etag }: Props) {
  const { t } = useTranslation("subjects");
  const navigate = useNavigate();
  const { name } = subject;
  // The version that was read when the dialog was opened.
  const [dialog, setDialog] = useState({ etag, isOpen: false });
  const mayNot = useMayNot(subject);
  return (
    <Paper withBorder p="md" component="section">
      <Row
        deed="delete"
        why={mayNot ?? (subject.is_archived ? undefined : t("delete.archive_first"))}
        onOpen={() => setDialog({ etag, isOpen: true })}
      />
      <ChangeDialog
        opened={dialog.isOpen}
        onClose={() => setDialog({ ...dialog, isOpen: false })}
        title={t("delete.dialog", { name })}
        actionLabel={t("delete.action")}
        doneMessage={t("delete.done", { name })}
        confirmName={name}
        run={(attempt) =>
          change("delete", "/api/v1/subjects/{subject}/", attempt, { path: { subject: name }, etag: dialog.etag })
        }
        refreshes={[subjectsKey]}
        onDone={() => void navigate({ to: "/subjects" })}
      />
    </Paper>
  );
}
