import { useTranslation } from "@/i18n/useTranslation";
import { useMe } from "@/api/me";
import { removeApp } from "@/features/account/queries";
import { PreviewDialog } from "@/ui/dialog/ChangeDialog";

/** Turning the second factor off leaves the password alone: the own name is to be typed. */
export function RemoveDialog({ onClose }: { onClose: () => void }) {
  const { t } = useTranslation("account");
  return (
    <PreviewDialog
      onClose={onClose}
      title={t("factor.remove")}
      run={async ({ dryRun }) => dryRun || removeApp()}
      show={() => t("factor.remove_preview")}
      confirmName={useMe().username}
      reasonField={false}
      actionLabel={t("factor.remove")}
      doneMessage={t("factor.removed")}
      refreshes={[["me"]]}
    />
  );
}
