import { ActionIcon, Anchor, Button, type ActionIconProps, type AnchorProps, type ButtonProps } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import type { ComponentType, ReactNode } from "react";

interface Clicked {
  onClick: () => void;
  children?: ReactNode;
}

/** Opens the form of something new. */
export function CreateButton(props: ButtonProps & Clicked) {
  return <Button leftSection={<IconPlus size={16} aria-hidden />} data-action="create" {...props} />;
}

/**
 * A button that is an icon; its name is shown on hover and focus. `hint` says it shorter where the name has to tell
 * rows apart.
 */
export function IconButton({
  label,
  hint = label,
  icon: Icon,
  iconSize = 18,
  ...rest
}: ActionIconProps & {
  lang?: string;
  label: string;
  hint?: string;
  icon: ComponentType<{ size: number; "aria-hidden": boolean }>;
  iconSize?: number;
  onClick: () => void;
}) {
  return (
    <ActionIcon data-hint={hint} variant="default" size="lg" aria-label={label} {...rest}>
      <Icon size={iconSize} aria-hidden />
    </ActionIcon>
  );
}

/** A text that opens what it names. */
export function TextButton(props: Omit<AnchorProps, "component"> & Clicked & { "aria-label"?: string }) {
  return <Anchor component="button" type="button" size="sm" ta="left" {...props} />;
}
