import { Stack, Text } from "@mantine/core";
import { useTranslation } from "@/i18n/useTranslation";
import { groupsKey, resetGroup, type OfGroup, type ResetRequest } from "@/features/groups/queries";
import { ResetPreview } from "@/features/groups/ResetPreview";
import { PreviewDialog } from "@/ui/dialog/ChangeDialog";

type Props = OfGroup & { onClose: () => void };

/** Skip what the group has not pulled yet. */
export function SkipDialog(props: Props) {
  return <FixedReset {...props} words="skip" request={{ to: "latest" }} />;
}

/** Set the group back to where it was before the newest reset. */
export function UndoDialog(props: Props) {
  const positions = props.detail.latest_reset?.before ?? {};
  return <FixedReset {...props} words="undo" request={{ to: "positions", positions }} />;
}

/** A reset to a fixed place: its preview is there at once, and no name is typed, because it can be undone. */
function FixedReset({
  name,
  etag,
  words,
  request,
  onClose,
}: Props & { words: "skip" | "undo"; request: ResetRequest }) {
  const { t } = useTranslation("groups");
  return (
    <PreviewDialog
      onClose={onClose}
      title={t(`${words}.title`, { group: name.group })}
      run={(attempt) => resetGroup(name, request, etag, attempt)}
      show={(preview) => (
        <Stack gap="xs">
          <Text size="sm">{t(`${words}.means`)}</Text>
          <ResetPreview preview={preview} />
        </Stack>
      )}
      isWorthIt={(preview) => preview.is_change}
      actionLabel={t(`action.${words}`)}
      doneMessage={t(`${words}.done`, { group: name.group })}
      refreshes={[groupsKey]}
    />
  );
}
