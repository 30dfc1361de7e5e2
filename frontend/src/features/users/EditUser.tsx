import { useState } from "react";
import { useTranslation } from "react-i18next";
import { updateUser, type User, type UserValues } from "@/features/users/queries";
import { UserFields } from "@/features/users/UserFields";
import { ChangeDialog } from "@/ui/ChangeDialog";

function valuesOf({ email, first_name, last_name, role, teams }: User): UserValues {
  return { email, first_name, last_name, role, teams };
}

/** Change what a user is; the plan says which fields. */
export function EditUser({
  user,
  etag,
  opened,
  onClose,
  onDone,
}: {
  user: User;
  etag: string | null;
  opened: boolean;
  onClose: () => void;
  onDone: () => void;
}) {
  const { t } = useTranslation("users");
  // Until something is typed it shows what the user is now, also after a change.
  const [typed, setTyped] = useState<UserValues | null>(null);
  const values = typed ?? valuesOf(user);
  const close = () => {
    setTyped(null);
    onClose();
  };
  return (
    <ChangeDialog
      opened={opened}
      onClose={close}
      title={t("edit.title")}
      run={(attempt) => updateUser(user.id, values, etag, attempt)}
      inputs={JSON.stringify(values)}
      isReady={typed !== null}
      actionLabel={t("common:action.save")}
      doneMessage={t("edit.done", { name: user.username })}
      onDone={onDone}
    >
      <UserFields values={values} onChange={setTyped} />
    </ChangeDialog>
  );
}
