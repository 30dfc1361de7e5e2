import { Button } from "@mantine/core";
import { IconPlayerPause, IconPlayerPlay, IconPlayerSkipForward, IconRestore, IconTrash } from "@tabler/icons-react";
import { useTranslation } from "@/i18n/useTranslation";
import type { Opened } from "@/features/groups/Dialogs";
import type { Detail } from "@/features/groups/queries";

type What = Opened["what"];

/** Changes of a group. */
export function Actions({ detail, onOpen }: { detail: Detail; onOpen: (what: Opened) => void }) {
  const { t } = useTranslation("groups");
  const isServed = detail.progress.some(({ end_sequence: end }) => end !== null);
  const button = (what: What, Icon: typeof IconTrash) => (
    <Button
      variant={what === "resume" ? "filled" : "default"}
      c={what === "forget" ? "red" : undefined}
      leftSection={<Icon size={16} aria-hidden />}
      onClick={() => onOpen({ what })}
      data-do={what}
    >
      {t(`action.${what}`)}
    </Button>
  );
  return (
    <>
      {detail.is_paused ? button("resume", IconPlayerPlay) : button("pause", IconPlayerPause)}
      {isServed && button("skip", IconPlayerSkipForward)}
      {detail.progress.length > 0 && button("reset", IconRestore)}
      {button("forget", IconTrash)}
    </>
  );
}
