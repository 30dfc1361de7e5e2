import { Button } from "@mantine/core";
import { IconPlayerPause, IconPlayerPlay, IconRestore, IconTrash } from "@tabler/icons-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import type { Detail, GroupName } from "@/features/groups/queries";
import { whenDrawn } from "@/ui/whenOpened";

const ForgetDialog = whenDrawn(async () => (await import("@/features/groups/ForgetDialog")).ForgetDialog);
const PauseDialog = whenDrawn(async () => (await import("@/features/groups/PauseDialog")).PauseDialog);
const ResetDialog = whenDrawn(async () => (await import("@/features/groups/ResetDialog")).ResetDialog);

/** What can be done about a group. A dialog holds the group as it was when it was opened: a change of somebody else since is refused. */
export function Actions({ name, detail, etag }: { name: GroupName; detail: Detail; etag: string | null }) {
  const { t } = useTranslation("groups");
  const [open, setOpen] = useState<{ what: "pause" | "reset" | "forget"; etag: string | null; to: boolean } | null>(
    null,
  );
  const show = (what: "pause" | "reset" | "forget") => () => setOpen({ what, etag, to: !detail.is_paused });
  const close = () => setOpen(null);
  const hasPosition = detail.progress.some(({ next_sequence: next }) => next !== null);
  const PauseIcon = detail.is_paused ? IconPlayerPlay : IconPlayerPause;
  return (
    <>
      <Button
        variant={detail.is_paused ? "filled" : "default"}
        leftSection={<PauseIcon size={16} aria-hidden />}
        onClick={show("pause")}
        data-do="pause"
      >
        {t(detail.is_paused ? "action.resume" : "action.pause")}
      </Button>
      {hasPosition && (
        <Button
          variant="default"
          leftSection={<IconRestore size={16} aria-hidden />}
          onClick={show("reset")}
          data-do="reset"
        >
          {t("action.reset")}
        </Button>
      )}
      <Button
        variant="default"
        c="red"
        leftSection={<IconTrash size={16} aria-hidden />}
        onClick={show("forget")}
        data-do="forget"
      >
        {t("action.forget")}
      </Button>
      {open?.what === "pause" && <PauseDialog name={name} to={open.to} etag={open.etag} onClose={close} />}
      {open?.what === "reset" && <ResetDialog name={name} detail={detail} etag={open.etag} onClose={close} />}
      {open?.what === "forget" && <ForgetDialog name={name} etag={open.etag} onClose={close} />}
    </>
  );
}
