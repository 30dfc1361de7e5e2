import { useImperativeHandle, type Ref } from "react";

/** The target of a popover that is drawn elsewhere: so the popover can be loaded later than what it belongs to. */
export function PopoverAnchor({ element, ref }: { element: HTMLElement | null; ref?: Ref<HTMLElement | null> }) {
  useImperativeHandle<HTMLElement | null, HTMLElement | null>(ref, () => element, [element]);
  return null;
}
