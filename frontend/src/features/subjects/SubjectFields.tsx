import { Checkbox, NativeSelect, Select, SimpleGrid, Stack, TagsInput, Textarea, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "@/i18n/useTranslation";
import { may, useMe } from "@/api/me";
import { teamNamesOptions } from "@/api/teams";
import {
  ALLOWED_GROUPS_MAX,
  FORMATS,
  hasSchema,
  NAME_CHARS_MAX,
  problemsOf,
  TAGS_MAX,
  type SubjectForm,
} from "@/features/subjects/values";
import { fieldsOf } from "@/ui/fields";

/** Everything that is set of a subject, checked as it is typed. */
export function SubjectFields({
  form,
  onChange,
  isNew = false,
  isDisabled = false,
}: {
  form: SubjectForm;
  onChange: (form: SubjectForm) => void;
  /** The name is asked for too. */
  isNew?: boolean;
  isDisabled?: boolean;
}) {
  const { t } = useTranslation("subjects");
  const problems = problemsOf(form);
  const owners = useOwners(form.owner);
  const fields = fieldsOf(form, (some) => onChange({ ...form, ...some }), "NewSubjectRequest");
  const about = (name: keyof SubjectForm, text: string = name) => {
    const wrong = problems[name];
    return {
      label: t(`field.${text}`),
      description: t(`hint.${text}`),
      disabled: isDisabled,
      error: wrong && t(`wrong.${wrong}`),
    };
  };
  const allowed = about("allowedGroups", "allowed_groups");
  return (
    <Stack gap="md">
      {isNew && (
        <TextInput
          {...about("name")}
          required
          data-autofocus
          autoComplete="off"
          spellCheck={false}
          {...fields.text("name")}
          maxLength={NAME_CHARS_MAX + 1}
          // An empty name is no mistake yet: the form can't be sent with it anyway.
          error={form.name ? about("name").error : undefined}
        />
      )}
      <Textarea {...about("description")} autosize minRows={2} {...fields.text("description")} />
      <SimpleGrid cols={{ base: 1, sm: 2 }}>
        <Select
          {...about("owner")}
          data={owners}
          searchable
          clearable
          placeholder={t("owner.nobody")}
          value={form.owner || null}
          onChange={(owner) => onChange({ ...form, owner: owner ?? "" })}
        />
        <TagsInput {...about("tags")} maxTags={TAGS_MAX} {...fields.chosen("tags")} />
        <TextInput
          {...about("messagesPerSecond", "messages_per_second")}
          placeholder={t("limit.none")}
          inputMode="numeric"
          {...fields.text("messagesPerSecond")}
        />
        <TextInput
          {...about("bytesPerSecond", "bytes_per_second")}
          placeholder={t("limit.none")}
          {...fields.text("bytesPerSecond")}
        />
        <TextInput {...about("retention")} placeholder={t("retention.default")} {...fields.text("retention")} />
        <NativeSelect
          {...about("bodyFormat", "body_format")}
          {...fields.text("bodyFormat", "body_format")}
          data={[...new Set([...FORMATS, form.bodyFormat])].map((value) => ({
            value,
            label: t(`body_format.${value}`, { defaultValue: value }),
          }))}
        />
      </SimpleGrid>
      {hasSchema(form.bodyFormat) && (
        <Textarea
          {...about("bodySchema", "body_schema")}
          autosize
          minRows={3}
          maxRows={12}
          spellCheck={false}
          {...fields.text("bodySchema", "body_schema")}
        />
      )}
      <Checkbox {...about("isRestricted", "restricted")} {...fields.checked("isRestricted")} />
      {form.isRestricted && (
        <TagsInput
          {...allowed}
          description={form.allowedGroups.length ? allowed.description : t("hint.allowed_groups_none")}
          maxTags={ALLOWED_GROUPS_MAX}
          {...fields.chosen("allowedGroups")}
        />
      )}
    </Stack>
  );
}

/** Teams that the viewer may give a subject to, and the one that has it. */
export function useOwners(owner = ""): string[] {
  const me = useMe();
  const { data: teams = me.teams } = useQuery(teamNamesOptions());
  return [...new Set([owner, ...teams.filter((team) => may(me, "change_subjects", team))])].filter(Boolean).sort();
}
