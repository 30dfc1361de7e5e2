import { Checkbox } from "@mantine/core";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { change } from "@/api/requests";
import { groupsKey, type GroupName } from "@/features/groups/queries";
import { ChangeDialog } from "@/ui/dialog/ChangeDialog";

/** Forget a group: its positions on the nodes, and what was written about it. Messages stay. */
export function ForgetDialog({ name, etag, onClose }: { name: GroupName; etag: string | null; onClose: () => void }) {
  const { t } = useTranslation("groups");
  const navigate = useNavigate();
  const [isForced, setForced] = useState(false);
  return (
    <ChangeDialog
      onClose={onClose}
      title={t("forget.title", { group: name.group })}
      run={(attempt) =>
        change("delete", "/api/v1/consumer-groups/{subject}/{group}/", attempt, {
          path: name,
          etag,
          body: { force: isForced },
        })
      }
      means={t("forget.means")}
      isWorthIt={() => true}
      inputs={String(isForced)}
      confirmName={name.group}
      actionLabel={t("forget.action")}
      doneMessage={t("forget.done", { group: name.group })}
      refreshes={[groupsKey]}
      onDone={() => void navigate({ to: "/groups" })}
    >
      <Checkbox
        label={t("forget.force")}
        description={t("forget.force_hint")}
        checked={isForced}
        onChange={(event) => setForced(event.currentTarget.checked)}
      />
    </ChangeDialog>
  );
}
