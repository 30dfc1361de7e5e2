import { Button, Group, NativeSelect, Stack, TextInput } from "@mantine/core";
import { notifications } from "@mantine/notifications";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { api, must } from "@/api/client";
import { useMe } from "@/api/me";
import { etagOf } from "@/api/requests";
import type { MyChange } from "@/features/account/queries";
import { Section } from "@/features/account/Section";
import { isLanguage, LANGUAGES, setLanguage } from "@/i18n";
import { ProblemAlert } from "@/ui/page/ProblemAlert";
import { fieldsOf } from "@/ui/fields";

/** Name and language; the address, role and teams are an administrator's to change. */
export function Profile() {
  const { t } = useTranslation("account");
  const me = useMe();
  const client = useQueryClient();
  const [saved, setSaved] = useState({
    first_name: me.first_name,
    last_name: me.last_name,
    language: me.language as MyChange["language"],
  });
  const [values, setValues] = useState(saved);
  const fields = fieldsOf(values, (some) => setValues({ ...values, ...some }), "PatchedMyChangeRequest");
  const save = useMutation({
    mutationFn: () => must(api.PATCH("/api/v1/me/", { params: { header: { "If-Match": etagOf(me) } }, body: values })),
    onSuccess: async () => {
      setSaved(values);
      await client.invalidateQueries({ queryKey: ["me"], exact: true });
      if (isLanguage(values.language)) await setLanguage(values.language);
      notifications.show({ message: t("profile.saved"), color: "teal" });
    },
  });
  return (
    <Section title={t("profile.title")}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          save.mutate();
        }}
      >
        <Stack gap="sm">
          <Group grow align="flex-start">
            <TextInput label={t("profile.first_name")} autoComplete="given-name" {...fields.text("first_name")} />
            <TextInput label={t("profile.last_name")} autoComplete="family-name" {...fields.text("last_name")} />
          </Group>
          <NativeSelect
            label={t("profile.language")}
            data={[
              { value: "", label: t("profile.language_of_browser") },
              ...Object.entries(LANGUAGES).map(([value, label]) => ({ value, label })),
            ]}
            {...fields.text("language")}
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
            <Button type="submit" disabled={JSON.stringify(values) === JSON.stringify(saved)} loading={save.isPending}>
              {t("common:action.save")}
            </Button>
          </Group>
        </Stack>
      </form>
    </Section>
  );
}
