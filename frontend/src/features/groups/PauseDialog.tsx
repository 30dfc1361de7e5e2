import { Stack, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { groupsKey, setPaused, type GroupName } from "@/features/groups/queries";
import { ChangePlan, PlanDialog } from "@/ui/ChangeDialog";

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
    <PlanDialog
      onClose={onClose}
      title={t(`${words}.title`, { group: name.group, consumer: consumerId })}
      run={(attempt) => setPaused(name, to, consumerId, etag, attempt)}
      show={(plan) => (
        <Stack gap="xs">
          <Text size="sm">{t(`${words}.means`)}</Text>
          <ChangePlan plan={plan} />
        </Stack>
      )}
      isWorthIt={(plan) => plan.is_change}
      actionLabel={t(to ? "action.pause" : "action.resume")}
      doneMessage={t(`${words}.done`, { group: name.group, consumer: consumerId })}
      refreshes={[groupsKey]}
    />
  );
}
