import { Button, Group, NativeSelect, Stack, TextInput } from "@mantine/core";
import { useForm } from "@mantine/form";
import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { useMe } from "@/api/me";
import { changeMe, type MyChange } from "@/features/account/queries";
import { Section } from "@/features/account/Section";
import { isLanguage, LANGUAGES, setLanguage } from "@/i18n";
import { ProblemAlert } from "@/ui/ProblemAlert";

const NAME_CHARS_MAX = 150;

/** Name and language; the address, role and teams are an administrator's to change. */
export function Profile() {
  const { t } = useTranslation("account");
  const me = useMe();
  const client = useQueryClient();
  const form = useForm({
    initialValues: {
      first_name: me.first_name,
      last_name: me.last_name,
      language: me.language as MyChange["language"],
    },
  });
  const save = useMutation({
    mutationFn: (values: typeof form.values) => changeMe(values, `"v${me.version}"`),
    onSuccess: async (_, values) => {
      form.resetDirty(values);
      await client.invalidateQueries({ queryKey: ["me"], exact: true });
      if (isLanguage(values.language)) await setLanguage(values.language);
      notifications.show({ message: t("profile.saved"), color: "teal" });
    },
  });
  return (
    <Section title={t("profile.title")}>
      <form onSubmit={form.onSubmit((values) => save.mutate(values))}>
        <Stack gap="sm">
          <Group grow align="flex-start">
            <TextInput
              label={t("profile.first_name")}
              maxLength={NAME_CHARS_MAX}
              autoComplete="given-name"
              {...form.getInputProps("first_name")}
            />
            <TextInput
              label={t("profile.last_name")}
              maxLength={NAME_CHARS_MAX}
              autoComplete="family-name"
              {...form.getInputProps("last_name")}
            />
          </Group>
          <NativeSelect
            label={t("profile.language")}
            data={[
              { value: "", label: t("profile.language_of_browser") },
              ...Object.entries(LANGUAGES).map(([value, label]) => ({ value, label })),
            ]}
            {...form.getInputProps("language")}
          />
          <TextInput
            label={t("profile.email")}
            description={t("profile.by_administrator")}
            value={me.email || "—"}
            readOnly
            variant="filled"
          />
          <TextInput label={t("common:nav.teams")} value={me.teams.join(", ") || "—"} readOnly variant="filled" />
          {save.isError && <ProblemAlert error={save.error} />}
          <Group justify="flex-end">
            <Button type="submit" disabled={!form.isDirty()} loading={save.isPending}>
              {t("common:action.save")}
            </Button>
          </Group>
        </Stack>
      </form>
    </Section>
  );
}
