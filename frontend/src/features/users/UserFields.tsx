import { Badge, Group, MultiSelect, NativeSelect, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { teamNamesOptions } from "@/api/teams";
import { ROLES, type Role, type UserValues } from "@/features/users/queries";
import { fieldsOf } from "@/ui/fields";

/** What an administrator sets of a user. */
export function UserFields({ values, onChange }: { values: UserValues; onChange: (values: UserValues) => void }) {
  const { t } = useTranslation("users");
  const teams = useQuery(teamNamesOptions());
  const fields = fieldsOf(values, (some) => onChange({ ...values, ...some }), "NewUserRequest");
  return (
    <>
      <Group grow align="flex-start">
        <TextInput label={t("field.first_name")} {...fields.text("first_name")} />
        <TextInput label={t("field.last_name")} {...fields.text("last_name")} />
      </Group>
      <TextInput label={t("field.email")} type="email" {...fields.text("email")} />
      <NativeSelect
        label={t("field.role")}
        description={t(`role_hint.${values.role ?? "viewer"}`)}
        value={values.role ?? "viewer"}
        onChange={fields.text("role").onChange}
        data={ROLES.map((role) => ({ value: role, label: t(`common:role.${role}`) }))}
      />
      <MultiSelect
        label={t("field.teams")}
        description={t("field.teams_hint")}
        searchable
        clearable
        hidePickedOptions
        value={values.teams ?? []}
        onChange={fields.chosen("teams").onChange}
        data={[...new Set([...(teams.data ?? []), ...(values.teams ?? [])])]}
        error={teams.isError ? t("field.teams_unknown") : undefined}
      />
    </>
  );
}

export function RoleBadge({ role = "viewer" }: { role?: Role }) {
  const { t } = useTranslation();
  return (
    <Badge variant="light" tt="none" color={role === "admin" ? "orange" : "blue"}>
      {t(`role.${role}`)}
    </Badge>
  );
}
