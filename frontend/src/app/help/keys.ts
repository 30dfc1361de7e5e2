/** What keys do, by place; `key` is looked up below `keys.` of the texts. */
export const KEYS = [
  {
    place: "anywhere",
    keys: [
      ["Ctrl K", "search"],
      ["/", "filter"],
      ["?", "help"],
      ["Esc", "close"],
    ],
  },
  { place: "list", keys: [["Home End", "edge"]] },
  {
    place: "chart",
    keys: [
      ["← →", "point"],
      ["+ −", "zoom"],
      ["0", "all"],
    ],
  },
] as const;

/** Whether a key press goes to a field, where it is text. */
function isTyped(event: KeyboardEvent): boolean {
  const { target } = event;
  return (
    target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  );
}

/** Whether this is a plain press of `key` (as the layout of the keyboard makes it) outside of fields. */
export function isPressed(event: KeyboardEvent, key: string): boolean {
  return event.key === key && !event.ctrlKey && !event.metaKey && !event.altKey && !isTyped(event);
}
