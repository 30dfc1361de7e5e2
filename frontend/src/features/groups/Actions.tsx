import { Button } from "@mantine/core";
import { IconPlayerPause, IconPlayerPlay, IconRestore, IconTrash } from "@tabler/icons-react";
import { useState } from "react";
import { useTranslation } from "react-i18next";
import type { OfGroup } from "@/features/groups/queries";
import { whenDrawn } from "@/ui/dialog/whenOpened";
import { useUrlState } from "@/ui/links/urlState";

const ForgetDialog = whenDrawn(async () => (await import("@/features/groups/ForgetDialog")).ForgetDialog);
const PauseDialog = whenDrawn(async () => (await import("@/features/groups/PauseDialog")).PauseDialog);
const ResetDialog = whenDrawn(async () => (await import("@/features/groups/ResetDialog")).ResetDialog);

const DIALOGS = ["pause", "reset", "forget"] as const;
type What = (typeof DIALOGS)[number];

/** Changes of a group, each in a dialog, which the address names (`do`). */
export function Actions(of: OfGroup) {
  const { t } = useTranslation("groups");
  const { detail } = of;
  const [search, change] = useUrlState();
  const opened = DIALOGS.find((what) => what === search.do);
  const hasPosition = detail.progress.some(({ next_sequence: next }) => next !== null);
  const button = (what: What, Icon: typeof IconTrash, text: string = what) => (
    <Button
      variant={text === "resume" ? "filled" : "default"}
      c={what === "forget" ? "red" : undefined}
      leftSection={<Icon size={16} aria-hidden />}
      onClick={() => change({ do: what })}
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
      {opened && <Opened key={opened} what={opened} {...of} onClose={() => change({ do: undefined })} />}
    </>
  );
}

/** A dialog. It keeps the version it was opened with: after a change by another user it is refused. */
function Opened({ what, name, detail, etag, onClose }: OfGroup & { what: What; onClose: () => void }) {
  const [before] = useState({ etag, to: !detail.is_paused });
  if (what === "pause") return <PauseDialog name={name} to={before.to} etag={before.etag} onClose={onClose} />;
  if (what === "reset") return <ResetDialog name={name} detail={detail} etag={before.etag} onClose={onClose} />;
  return <ForgetDialog name={name} etag={before.etag} onClose={onClose} />;
}
