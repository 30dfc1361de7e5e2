import { useState } from "react";
import type { OfGroup } from "@/features/groups/queries";
import { whenDrawn } from "@/ui/dialog/whenOpened";
import { useUrlState } from "@/ui/links/urlState";

const ConsumerDialog = whenDrawn(async () => (await import("@/features/groups/ConsumerDialog")).ConsumerDialog);
const ForgetDialog = whenDrawn(async () => (await import("@/features/groups/ForgetDialog")).ForgetDialog);
const PauseDialog = whenDrawn(async () => (await import("@/features/groups/PauseDialog")).PauseDialog);
const ResetDialog = whenDrawn(async () => (await import("@/features/groups/ResetDialog")).ResetDialog);
const SkipDialog = whenDrawn(async () => (await import("@/features/groups/FixedReset")).SkipDialog);
const UndoDialog = whenDrawn(async () => (await import("@/features/groups/FixedReset")).UndoDialog);

const DIALOGS = ["pause", "resume", "reset", "skip", "undo", "forget", "start"] as const;

/** A dialog of the page of a group. */
export interface Opened {
  what: (typeof DIALOGS)[number];
  /** Of pauses: one consumer instead of the group. */
  consumer?: string;
}

/** The dialog that the address names (`do`, `consumer`), and how one is opened. */
export function useDialog(): [opened: Opened | null, open: (what: Opened | null) => void] {
  const [search, change] = useUrlState();
  const what = DIALOGS.find((one) => one === search.do);
  return [
    what === undefined ? null : { what, ...(search.consumer && { consumer: search.consumer }) },
    (next) => change({ do: next?.what, consumer: next?.consumer }),
  ];
}

/** A dialog, for the group as it was when that was opened: after another change it is refused. */
export function Dialog({ open, onClose, ...now }: OfGroup & { open: Opened; onClose: () => void }) {
  const [of] = useState(now);
  const { name, etag, detail } = of;
  switch (open.what) {
    case "pause":
    case "resume":
      return (
        <PauseDialog
          name={name}
          {...(open.consumer !== undefined && { consumerId: open.consumer })}
          // A link to pause a group that is paused resumes it.
          to={open.what === "pause" && (open.consumer !== undefined || !detail.is_paused)}
          etag={etag}
          onClose={onClose}
        />
      );
    case "reset":
      return <ResetDialog {...of} onClose={onClose} />;
    case "skip":
      return <SkipDialog {...of} onClose={onClose} />;
    case "undo":
      return <UndoDialog {...of} onClose={onClose} />;
    case "forget":
      return <ForgetDialog name={name} etag={etag} onClose={onClose} />;
    case "start":
      return <ConsumerDialog name={name} onClose={onClose} />;
  }
}
