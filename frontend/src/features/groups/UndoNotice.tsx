import { Text } from "@mantine/core";
import { useTranslation } from "@/i18n/useTranslation";
import type { Opened } from "@/features/groups/Dialogs";
import type { Detail } from "@/features/groups/queries";
import { isUndoable } from "@/features/groups/reset";
import { Instant } from "@/ui/measure/Instant";
import { TextButton } from "@/ui/menu/buttons";

/** The newest reset of the last hour, and how to undo it. */
export function UndoNotice({ detail, onOpen }: { detail: Detail; onOpen: (what: Opened) => void }) {
  const { t } = useTranslation("groups");
  const reset = detail.latest_reset;
  if (!reset || !isUndoable(reset)) return null;
  return (
    <Text size="sm" c="dimmed" data-undo="">
      {t("undo.notice", { by: reset.by })} <Instant at={reset.at} relative />
      {detail.may_change && (
        <>
          {" · "}
          <TextButton onClick={() => onOpen({ what: "undo" })}>{t("action.undo")}</TextButton>
        </>
      )}
    </Text>
  );
}
