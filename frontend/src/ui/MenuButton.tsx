import { ActionIcon, type ActionIconProps } from "@mantine/core";
import { useId, useState, type ReactNode } from "react";
import type { Props as BoxProps } from "@/ui/MenuBox";
import { whenOpened } from "@/ui/whenOpened";

const load = async () => (await import("@/ui/MenuBox")).MenuBox;
const MenuBox = whenOpened<BoxProps>(load);
/** A failure is reported when the menu is opened. */
const preload = () => void load().catch(() => undefined);

/** An icon that opens a menu, which is loaded when the icon is pointed at, or when it is opened. */
export function MenuButton({
  label,
  icon,
  title,
  entries,
  ...rest
}: Pick<BoxProps, "title" | "entries"> & ActionIconProps & { label: string; icon: ReactNode }) {
  const id = useId();
  const [isOpen, setOpen] = useState(false);
  const [button, setButton] = useState<HTMLButtonElement | null>(null);
  return (
    <>
      <ActionIcon
        ref={setButton}
        id={`${id}-target`}
        size="lg"
        aria-label={label}
        data-hint={isOpen ? undefined : label}
        aria-haspopup="menu"
        aria-expanded={isOpen}
        aria-controls={isOpen ? `${id}-dropdown` : undefined}
        onClick={() => setOpen(!isOpen)}
        onPointerEnter={preload}
        onFocus={preload}
        {...rest}
      >
        {icon}
      </ActionIcon>
      <MenuBox id={id} opened={isOpen} onChange={setOpen} target={button} title={title} entries={entries} />
    </>
  );
}
