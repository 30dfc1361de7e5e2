import { ActionIcon, Button, type ActionIconProps } from "@mantine/core";
import { useId, useState, type ReactNode } from "react";
import type { Props as BoxProps } from "@/ui/menu/MenuBox";
import { whenOpened } from "@/ui/dialog/whenOpened";

const load = async () => (await import("@/ui/menu/MenuBox")).MenuBox;
const MenuBox = whenOpened<BoxProps>(load);
/** A failure is reported when the menu is opened. */
const preload = () => void load().catch(() => undefined);

/**
 * An icon, or a button with its label, that opens a menu. The menu is loaded when the button is pointed at, or when it
 * is opened.
 */
export function MenuButton({
  label,
  icon,
  title,
  entries,
  withText = false,
  ...rest
}: Pick<BoxProps, "title" | "entries"> & ActionIconProps & { label: string; icon: ReactNode; withText?: boolean }) {
  const id = useId();
  const [isOpen, setOpen] = useState(false);
  const [button, setButton] = useState<HTMLButtonElement | null>(null);
  const opener = {
    ref: setButton,
    id: `${id}-target`,
    "aria-haspopup": "menu",
    "aria-expanded": isOpen,
    "aria-controls": isOpen ? `${id}-dropdown` : undefined,
    onClick: () => setOpen(!isOpen),
    onPointerEnter: preload,
    onFocus: preload,
  } as const;
  return (
    <>
      {withText ? (
        <Button {...opener} variant="default" size="sm" leftSection={icon}>
          {label}
        </Button>
      ) : (
        <ActionIcon {...opener} size="lg" aria-label={label} data-hint={isOpen ? undefined : label} {...rest}>
          {icon}
        </ActionIcon>
      )}
      <MenuBox id={id} opened={isOpen} onChange={setOpen} target={button} title={title} entries={entries} />
    </>
  );
}
