import { useTranslation } from "@/i18n/useTranslation";
import { groupsKey, setPaused, type GroupName } from "@/features/groups/queries";
import { ChangeDialog } from "@/ui/dialog/ChangeDialog";

/** Pause or resume a group, or one of its consumers. */
export function PauseDialog({
  name,
  consumerId,
  to,
  etag,
  onClose,
}: {
  name: GroupName;
  consumerId?: string;
  /** True pauses. */
  to: boolean;
  etag: string | null;
  onClose: () => void;
}) {
  const { t } = useTranslation("groups");
  const words = `${to ? "pause" : "resume"}${consumerId ? "_one" : ""}`;
  return (
    <ChangeDialog
      onClose={onClose}
      title={t(`${words}.title`, { group: name.group, consumer: consumerId })}
      run={(attempt) => setPaused(name, to, consumerId, etag, attempt)}
      means={t(`${words}.means`)}
      actionLabel={t(to ? "action.pause" : "action.resume")}
      doneMessage={t(`${words}.done`, { group: name.group, consumer: consumerId })}
      refreshes={[groupsKey]}
    />
  );
}
