import type { MouseEvent } from "react";

/** What is clicked for itself: it opens no row. */
const OWN = "a, button, input, label, select, textarea, td.select";

/** For the body of a table: a click on a row (`data-row`) opens it, unless it was on a control, or selected text. */
export function openedBy(onOpen: (key: string) => void): (event: MouseEvent) => void {
  return ({ target }) => {
    if (!(target instanceof Element) || target.closest(OWN)) return;
    if (window.getSelection()?.toString()) return;
    const key = target.closest<HTMLElement>("tr[data-row]")?.dataset.row;
    if (key !== undefined) onOpen(key);
  };
}
