import { TextInput } from "@mantine/core";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import { change } from "@/api/requests";
import { usersKey, type MadeUser, type UserValues } from "@/features/users/queries";
import { UserFields } from "@/features/users/UserFields";
import { PlanDialog } from "@/ui/ChangeDialog";
import { ShownOnce } from "@/ui/ShownOnce";

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
      <PlanDialog<MadeUser>
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
      </PlanDialog>
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
