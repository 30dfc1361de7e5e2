import { Alert, Button, Group, Stack, Text } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { EndOfLife } from "@/features/subjects/EndOfLife";
import { MaskingRules } from "@/features/subjects/MaskingRules";
import { changeSubject, subjectOptions, subjectsKey, type Subject } from "@/features/subjects/queries";
import { SubjectFields } from "@/features/subjects/SubjectFields";
import { changesOf, formOf, problemsOf } from "@/features/subjects/values";
import { ChangeDialog } from "@/ui/dialog/ChangeDialog";
import { Instant } from "@/ui/measure/Instant";
import { Part } from "@/ui/page/Part";
import { QueryProblem } from "@/ui/page/loaded";

/** Everything that is set of a subject, archiving and deletion. */
export default function SettingsTab({ subject }: { subject: string }) {
  const query = useQuery(subjectOptions(subject));
  if (!query.data) return <QueryProblem of={query} />;
  const { data: row, etag } = query.data;
  return (
    <Stack gap="xl" maw={860}>
      <Settings key={subject} subject={row} etag={etag} />
      <MaskingRules key={`masking ${subject}`} subject={row} etag={etag} />
      <EndOfLife subject={row} etag={etag} deed={row.is_archived ? "restore" : "archive"} />
      <EndOfLife subject={row} etag={etag} deed="delete" />
    </Stack>
  );
}

function Settings({ subject, etag }: { subject: Subject; etag: string | null }) {
  const { t } = useTranslation("subjects");
  const [isAsking, { open, close }] = useDisclosure();
  // What the form began with stays until it is saved or taken back: others' changes since are reported, not mixed in.
  const [begun, setBegun] = useState({ form: formOf(subject), etag });
  const [form, setForm] = useState(begun.form);
  const changes = changesOf(begun.form, form);
  const isChanged = Object.keys(changes).length > 0;
  const isOutdated = begun.etag !== etag;
  const reload = () => {
    const now = formOf(subject);
    setBegun({ form: now, etag });
    setForm(now);
  };
  if (isOutdated && !isChanged) reload();
  return (
    <Part title={t("settings.title")}>
      {!subject.may_change && (
        <Alert color="gray" mb="md">
          {t("settings.may_not", { owner: subject.owner ?? t("owner.nobody") })}
        </Alert>
      )}
      <SubjectFields form={form} onChange={setForm} isDisabled={!subject.may_change} />
      {isOutdated && isChanged && (
        <Alert color="orange" mt="md" title={t("settings.outdated")}>
          {t("settings.outdated_hint")}
        </Alert>
      )}
      <Group mt="md" gap="sm">
        {subject.may_change && (
          <>
            <Button
              onClick={open}
              disabled={!isChanged || isOutdated || Object.keys(problemsOf(form)).length > 0}
              data-action="save"
            >
              {t("common:change.preview")}
            </Button>
            <Button variant="default" onClick={reload} disabled={!isChanged}>
              {t("settings.take_back")}
            </Button>
          </>
        )}
        <Text size="sm" c="dimmed">
          {t("settings.changed")} <Instant at={subject.updated_at} relative />
        </Text>
      </Group>
      <ChangeDialog
        opened={isAsking}
        onClose={close}
        title={t("settings.dialog", { name: subject.name })}
        actionLabel={t("common:action.save")}
        doneMessage={t("settings.done", { name: subject.name })}
        run={(attempt) => changeSubject(subject.name, changes, begun.etag, attempt)}
        refreshes={[subjectsKey]}
        onDone={() => setBegun({ ...begun, form })}
      />
    </Part>
  );
}
