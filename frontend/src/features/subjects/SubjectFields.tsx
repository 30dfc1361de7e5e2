import { Checkbox, Select, SimpleGrid, Stack, TagsInput, Textarea, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { may, useMe } from "@/api/me";
import { teamNamesOptions } from "@/api/teams";
import {
  ALLOWED_GROUPS_MAX,
  DESCRIPTION_CHARS_MAX,
  NAME_CHARS_MAX,
  problemsOf,
  TAGS_MAX,
  type SubjectForm,
} from "@/features/subjects/values";

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
  const set = (changes: Partial<SubjectForm>) => onChange({ ...form, ...changes });
  const errorOf = (name: keyof SubjectForm) => {
    const key = problems[name];
    return key && t(`wrong.${key}`);
  };
  return (
    <Stack gap="md">
      {isNew && (
        <TextInput
          label={t("field.name")}
          description={t("hint.name")}
          required
          maxLength={NAME_CHARS_MAX + 1}
          data-autofocus
          autoComplete="off"
          spellCheck={false}
          value={form.name}
          // An empty name is no mistake yet: nothing can be sent, and nobody needs to be told off.
          error={form.name ? errorOf("name") : undefined}
          onChange={(event) => set({ name: event.currentTarget.value })}
        />
      )}
      <Textarea
        label={t("field.description")}
        description={t("hint.description")}
        autosize
        minRows={2}
        maxLength={DESCRIPTION_CHARS_MAX}
        disabled={isDisabled}
        value={form.description}
        error={errorOf("description")}
        onChange={(event) => set({ description: event.currentTarget.value })}
      />
      <SimpleGrid cols={{ base: 1, sm: 2 }}>
        <Select
          label={t("field.owner")}
          description={t("hint.owner")}
          data={owners}
          searchable
          clearable
          placeholder={t("owner.nobody")}
          disabled={isDisabled}
          value={form.owner || null}
          onChange={(owner) => set({ owner: owner ?? "" })}
        />
        <TagsInput
          label={t("field.tags")}
          description={t("hint.tags")}
          maxTags={TAGS_MAX}
          disabled={isDisabled}
          value={form.tags}
          error={errorOf("tags")}
          onChange={(tags) => set({ tags })}
        />
        <TextInput
          label={t("field.messages_per_second")}
          description={t("hint.messages_per_second")}
          placeholder={t("limit.none")}
          inputMode="numeric"
          disabled={isDisabled}
          value={form.messagesPerSecond}
          error={errorOf("messagesPerSecond")}
          onChange={(event) => set({ messagesPerSecond: event.currentTarget.value })}
        />
        <TextInput
          label={t("field.bytes_per_second")}
          description={t("hint.bytes_per_second")}
          placeholder={t("limit.none")}
          disabled={isDisabled}
          value={form.bytesPerSecond}
          error={errorOf("bytesPerSecond")}
          onChange={(event) => set({ bytesPerSecond: event.currentTarget.value })}
        />
        <TextInput
          label={t("field.retention")}
          description={t("hint.retention")}
          placeholder={t("retention.default")}
          disabled={isDisabled}
          value={form.retention}
          error={errorOf("retention")}
          onChange={(event) => set({ retention: event.currentTarget.value })}
        />
      </SimpleGrid>
      <Checkbox
        label={t("field.restricted")}
        description={t("hint.restricted")}
        disabled={isDisabled}
        checked={form.isRestricted}
        onChange={(event) => set({ isRestricted: event.currentTarget.checked })}
      />
      {form.isRestricted && (
        <TagsInput
          label={t("field.allowed_groups")}
          description={t(form.allowedGroups.length ? "hint.allowed_groups" : "hint.allowed_groups_none")}
          maxTags={ALLOWED_GROUPS_MAX}
          disabled={isDisabled}
          value={form.allowedGroups}
          error={errorOf("allowedGroups")}
          onChange={(allowedGroups) => set({ allowedGroups })}
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
