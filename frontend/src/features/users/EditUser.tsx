import { useState, type ComponentProps } from "react";
import { useTranslation } from "react-i18next";
import { updateUser, type User, type UserValues } from "@/features/users/queries";
import { UserFields } from "@/features/users/UserFields";
import { ChangeDialog } from "@/ui/ChangeDialog";

type Shared = Pick<ComponentProps<typeof ChangeDialog>, "onClose" | "refreshes">;

/** Change what a user is; the plan says which fields. */
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
