import { Badge, Group, MultiSelect, NativeSelect, TextInput } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState, type ComponentProps } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { change } from "@/api/requests";
import { teamNamesOptions } from "@/api/teams";
import {
  ROLES,
  updateUser,
  usersKey,
  type MadeUser,
  type Role,
  type User,
  type UserValues,
} from "@/features/users/queries";
import { ChangeDialog, PreviewDialog } from "@/ui/dialog/ChangeDialog";
import { fieldsOf } from "@/ui/fields";
import { ShownOnce } from "@/ui/dialog/ShownOnce";

type Shared = Pick<ComponentProps<typeof ChangeDialog>, "onClose" | "refreshes">;

/** Change what a user is; the preview says which fields. */
export function EditUser({ user, etag, ...shared }: Shared & { user: User; etag: string | null }) {
  const { t } = useTranslation("users");
  const { email, first_name, last_name, role, teams } = user;
  const [before] = useState<UserValues>({ email, first_name, last_name, role, teams });
  const [values, setValues] = useState(before);
  return (
    <ChangeDialog
      {...shared}
      title={t("edit.title")}
      run={(attempt) => updateUser(user.id, values, etag, attempt)}
      inputs={JSON.stringify(values)}
      isReady={values !== before}
      actionLabel={t("common:action.save")}
      doneMessage={t("edit.done", { name: user.username })}
    >
      <UserFields values={values} onChange={setValues} />
    </ChangeDialog>
  );
}

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

const NAME = /^[a-z0-9][a-z0-9._-]{0,59}$/;
const EMPTY: UserValues = { role: "viewer" };

/** A new user; the password is made by the console and shown once, to be handed over. */
export function CreateUser({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const { t } = useTranslation("users");
  const [name, setName] = useState("");
  const [values, setValues] = useState(EMPTY);
  const [made, setMade] = useState<MadeUser | null>(null);
  const isWrong = name !== "" && !NAME.test(name);
  return (
    <>
      <PreviewDialog<MadeUser>
        opened={opened}
        onClose={onClose}
        title={t("create.title")}
        run={(attempt) => change("post", "/api/v1/users/", attempt, { body: { username: name, ...values } })}
        inputs={JSON.stringify([name, values])}
        isReady={NAME.test(name)}
        actionLabel={t("common:action.create")}
        doneMessage={t("create.done", { name })}
        refreshes={[usersKey]}
        onDone={(done) => {
          setMade(done);
          setName("");
          setValues(EMPTY);
        }}
      >
        <TextInput
          label={t("column.username")}
          description={t("create.name_hint")}
          value={name}
          autoComplete="off"
          autoCapitalize="none"
          spellCheck={false}
          data-autofocus
          error={isWrong ? t("create.name_illegal") : undefined}
          onChange={(event) => setName(event.currentTarget.value)}
        />
        <UserFields values={values} onChange={setValues} />
      </PreviewDialog>
      <ShownOnce
        secret={made?.password ?? null}
        title={t("create.password_title", { name: made?.target })}
        label={t("create.password")}
        onClose={() => setMade(null)}
      >
        {t("create.password_hint")}
      </ShownOnce>
    </>
  );
}
