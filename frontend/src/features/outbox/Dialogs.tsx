import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { change, etagOf } from "@/api/requests";
import { changeDatabase, outboxKey, type Database } from "@/features/outbox/queries";
import { ChangeDialog } from "@/ui/dialog/ChangeDialog";

interface Props {
  row: Database;
  onClose: () => void;
}

/** Enables or disables a database; disabling requires typing its name. */
export function SwitchDialog({ row, onClose }: Props) {
  const { t } = useTranslation("outbox");
  // The page keeps refreshing the row: the change that the user chose stays the same.
  const [wasOn] = useState(row.is_enabled);
  const what = wasOn ? "disable" : "enable";
  const { name } = row;
  return (
    <ChangeDialog
      onClose={onClose}
      affects={name}
      title={t(`${what}.title`, { name })}
      means={t(`${what}.means`)}
      confirmName={wasOn ? name : undefined}
      actionLabel={t(`${what}.action`)}
      doneMessage={t(`${what}.done`, { name })}
      run={(attempt) => changeDatabase(row, { is_enabled: !wasOn }, attempt)}
      refreshes={[outboxKey]}
    />
  );
}

/** Removes a database from the list; its rows stay where they are. */
export function DeleteDialog({ row, onClose, onDone }: Props & { onDone?: () => void }) {
  const { t } = useTranslation("outbox");
  const { name, pending } = row;
  return (
    <ChangeDialog
      onClose={onClose}
      affects={name}
      title={t("delete.title", { name })}
      means={pending ? t("delete.means_pending", { count: pending }) : t("delete.means")}
      hides={Object.keys(row)}
      confirmName={name}
      actionLabel={t("common:action.delete")}
      doneMessage={t("delete.done", { name })}
      run={(attempt) =>
        change("delete", "/api/v1/outbox/databases/{database}/", attempt, {
          path: { database: row.id },
          etag: etagOf(row),
        })
      }
      refreshes={[outboxKey]}
      onDone={onDone}
    />
  );
}
