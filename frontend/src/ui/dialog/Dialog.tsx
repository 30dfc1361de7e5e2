import { Group, type ModalProps } from "@mantine/core";
import { useEffect, useState, type ReactNode } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { whenOpened } from "@/ui/dialog/whenOpened";

const Modal = whenOpened<ModalProps>(async () => (await import("@/ui/dialog/ModalBox")).Modal);

/**
 * The library's dialog with a close button that has a name, and which gives the focus back also when it is only there
 * while open.
 */
export function Dialog(props: ModalProps) {
  const { t } = useTranslation();
  useFocusBack(props.opened);
  return <Modal closeButtonProps={{ "aria-label": t("action.close") }} {...props} />;
}

/** The buttons of a dialog, its last row: they stay in sight while what is above them scrolls. */
export function DialogFooter({ children }: { children: ReactNode }) {
  return (
    <Group justify="flex-end" className="dialog-footer">
      {children}
    </Group>
  );
}

/** Gives the focus back to what had it when this was first drawn; the library does so only for what closes first. */
function useFocusBack(isOpen: boolean) {
  const [before] = useState(() => (isOpen ? document.activeElement : null));
  useEffect(
    () => () => {
      // After the focus trap has gone as well.
      setTimeout(() => {
        const isNowhere = document.activeElement === null || document.activeElement === document.body;
        if (isNowhere && before instanceof HTMLElement && before.isConnected) before.focus({ preventScroll: true });
      });
    },
    [before],
  );
}
