import { Button } from "@mantine/core";
import { IconPlayerPause, IconPlayerPlay, IconRestore, IconTrash } from "@tabler/icons-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import type { OfGroup } from "@/features/groups/queries";
import { whenDrawn } from "@/ui/dialog/whenOpened";

const ForgetDialog = whenDrawn(async () => (await import("@/features/groups/ForgetDialog")).ForgetDialog);
const PauseDialog = whenDrawn(async () => (await import("@/features/groups/PauseDialog")).PauseDialog);
const ResetDialog = whenDrawn(async () => (await import("@/features/groups/ResetDialog")).ResetDialog);

type What = "pause" | "reset" | "forget";

/** Changes of a group. A dialog keeps the version it was opened with: after a change by another user it is refused. */
export function Actions({ name, detail, etag }: OfGroup) {
  const { t } = useTranslation("groups");
  const [open, setOpen] = useState<{ what: What; etag: string | null; to: boolean } | null>(null);
  const close = () => setOpen(null);
  const hasPosition = detail.progress.some(({ next_sequence: next }) => next !== null);
  const button = (what: What, Icon: typeof IconTrash, text: string = what) => (
    <Button
      variant={text === "resume" ? "filled" : "default"}
      c={what === "forget" ? "red" : undefined}
      leftSection={<Icon size={16} aria-hidden />}
      onClick={() => setOpen({ what, etag, to: !detail.is_paused })}
      data-do={what}
    >
      {t(`action.${text}`)}
    </Button>
  );
  return (
    <>
      {detail.is_paused ? button("pause", IconPlayerPlay, "resume") : button("pause", IconPlayerPause)}
      {hasPosition && button("reset", IconRestore)}
      {button("forget", IconTrash)}
      {open?.what === "pause" && <PauseDialog name={name} to={open.to} etag={open.etag} onClose={close} />}
      {open?.what === "reset" && <ResetDialog name={name} detail={detail} etag={open.etag} onClose={close} />}
      {open?.what === "forget" && <ForgetDialog name={name} etag={open.etag} onClose={close} />}
    </>
  );
}
