import { Group, MultiSelect, NativeSelect, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { teamNamesOptions } from "@/api/teams";
import { ROLES, type Role, type UserValues } from "@/features/users/queries";

const NAME_CHARS_MAX = 150;

/** What an administrator sets of a user. */
export function UserFields({ values, onChange }: { values: UserValues; onChange: (values: UserValues) => void }) {
  const { t } = useTranslation("users");
  const teams = useQuery(teamNamesOptions());
  const set = (change: UserValues) => onChange({ ...values, ...change });
  return (
    <>
      <Group grow align="flex-start">
        <TextInput
          label={t("field.first_name")}
          maxLength={NAME_CHARS_MAX}
          value={values.first_name ?? ""}
          onChange={(event) => set({ first_name: event.currentTarget.value })}
        />
        <TextInput
          label={t("field.last_name")}
          maxLength={NAME_CHARS_MAX}
          value={values.last_name ?? ""}
          onChange={(event) => set({ last_name: event.currentTarget.value })}
        />
      </Group>
      <TextInput
        label={t("field.email")}
        type="email"
        maxLength={254}
        value={values.email ?? ""}
        onChange={(event) => set({ email: event.currentTarget.value })}
      />
      <NativeSelect
        label={t("field.role")}
        description={t(`role_hint.${values.role ?? "viewer"}`)}
        value={values.role ?? "viewer"}
        onChange={(event) => set({ role: event.currentTarget.value as Role })}
        data={ROLES.map((role) => ({ value: role, label: t(`common:role.${role}`) }))}
      />
      <MultiSelect
        label={t("field.teams")}
        description={t("field.teams_hint")}
        searchable
        clearable
        hidePickedOptions
        value={values.teams ?? []}
        onChange={(chosen) => set({ teams: chosen })}
        data={[...new Set([...(teams.data ?? []), ...(values.teams ?? [])])]}
        error={teams.isError ? t("field.teams_unknown") : undefined}
      />
    </>
  );
}
