import type { OfGroup } from "@/features/groups/queries";
import { whenDrawn } from "@/ui/dialog/whenOpened";

const ConsumerDialog = whenDrawn(async () => (await import("@/features/groups/ConsumerDialog")).ConsumerDialog);
const ForgetDialog = whenDrawn(async () => (await import("@/features/groups/ForgetDialog")).ForgetDialog);
const PauseDialog = whenDrawn(async () => (await import("@/features/groups/PauseDialog")).PauseDialog);
const ResetDialog = whenDrawn(async () => (await import("@/features/groups/ResetDialog")).ResetDialog);
const SkipDialog = whenDrawn(async () => (await import("@/features/groups/FixedReset")).SkipDialog);
const UndoDialog = whenDrawn(async () => (await import("@/features/groups/FixedReset")).UndoDialog);

/** The open dialog of the page of a group. */
export interface Opened {
  what: "pause" | "resume" | "reset" | "skip" | "undo" | "forget" | "start";
  /** Of pauses: one consumer instead of the group. */
  consumer?: string;
}

/** The dialog that is open, for the group as it was when that was opened: after another change it is refused. */
export function Dialogs({ open, onClose, ...of }: OfGroup & { open: Opened; onClose: () => void }) {
  const { name, etag } = of;
  switch (open.what) {
    case "pause":
    case "resume":
      return (
        <PauseDialog
          name={name}
          {...(open.consumer !== undefined && { consumerId: open.consumer })}
          to={open.what === "pause"}
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
