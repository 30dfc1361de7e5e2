import { Button, Group, Paper, Text, Title } from "@mantine/core";
import { IconArchive, IconArchiveOff, IconTrash } from "@tabler/icons-react";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import type { Change } from "@/api/client";
import { change, type Attempt } from "@/api/requests";
import { setArchived, subjectsKey, type Subject } from "@/features/subjects/queries";
import { ChangeDialog } from "@/ui/dialog/ChangeDialog";
import { Instant } from "@/ui/measure/Instant";

type Deed = "archive" | "restore" | "delete";
const ICONS = { archive: IconArchive, restore: IconArchiveOff, delete: IconTrash };
const RUN: Record<Deed, (subject: string, etag: string | null, attempt: Attempt) => Promise<Change>> = {
  archive: (subject, etag, attempt) => setArchived(subject, true, etag, attempt),
  restore: (subject, etag, attempt) => setArchived(subject, false, etag, attempt),
  delete: (subject, etag, attempt) =>
    change("delete", "/api/v1/subjects/{subject}/", attempt, { path: { subject }, etag }),
};

/**
 * Archive a subject, restore it, or delete it once it is archived, holds nothing and has no client; why that can't be
 * done.
 */
export function EndOfLife({ subject, etag, deed }: { subject: Subject; etag: string | null; deed: Deed }) {
  const { t } = useTranslation("subjects");
  const navigate = useNavigate();
  // What was read when the dialog was opened is what its preview is about.
  const [opened, setOpened] = useState<{ deed: Deed; etag: string | null } | null>(null);
  const { name, owner } = subject;
  const Icon = ICONS[deed];
  const mayNot = subject.may_change ? undefined : t("settings.may_not", { owner: owner ?? t("owner.nobody") });
  const why = mayNot ?? (deed === "delete" && !subject.is_archived ? t("delete.archive_first") : undefined);
  return (
    <Paper withBorder p="md" component="section">
      <Group justify="space-between" align="center" gap="md">
        <div className="grow">
          <Title order={2} size="h4">
            {t(`${deed}.title`)}
          </Title>
          <Text size="sm" c="dimmed">
            {t(`${deed}.text`)}{" "}
            {deed === "restore" && (
              <>
                {t("archive.since")} <Instant at={subject.archived_at} />
              </>
            )}
          </Text>
        </div>
        <Button
          variant="default"
          color={deed === "restore" ? undefined : "red"}
          leftSection={<Icon size={16} aria-hidden />}
          disabled={why !== undefined}
          title={why}
          onClick={() => setOpened({ deed, etag })}
          data-action={deed}
        >
          {t(`${deed}.action`)}
        </Button>
      </Group>
      {opened && (
        <ChangeDialog
          onClose={() => setOpened(null)}
          title={t(`${opened.deed}.dialog`, { name })}
          actionLabel={t(`${opened.deed}.action`)}
          doneMessage={t(`${opened.deed}.done`, { name })}
          // A restore takes nothing from any client.
          confirmName={opened.deed === "restore" ? undefined : name}
          run={(attempt) => RUN[opened.deed](name, opened.etag, attempt)}
          refreshes={[subjectsKey]}
          onDone={() => {
            if (opened.deed === "delete") void navigate({ to: "/subjects" });
          }}
        />
      )}
    </Paper>
  );
}
