import { Tooltip } from "@mantine/core";
import { useEffect, useState } from "react";

interface Shown {
  target: HTMLElement;
  text: string;
}

function hintAt(event: Event): Shown | null {
  const target = event.target instanceof Element ? event.target.closest<HTMLElement>("[data-hint]") : null;
  const text = target?.dataset.hint;
  return target && text ? { target, text } : null;
}

/**
 * What elements with `data-hint` say on hover and focus. One tooltip for the whole page: a list draws hundreds of cells, and a tooltip
 * component around each of them costs more than the cell.
 */
export function Hints() {
  const [shown, setShown] = useState<Shown | null>(null);
  useEffect(() => {
    const show = (event: Event) => {
      const found = hintAt(event);
      setShown((before) => (before?.target === found?.target && before?.text === found?.text ? before : found));
    };
    const hide = () => setShown(null);
    const onKey = ({ key }: KeyboardEvent) => {
      if (key === "Escape") hide();
    };
    document.addEventListener("mouseover", show);
    document.addEventListener("focusin", show);
    document.addEventListener("focusout", hide);
    document.addEventListener("scroll", hide, { capture: true, passive: true });
    document.addEventListener("keydown", onKey);
    return () => {
      document.removeEventListener("mouseover", show);
      document.removeEventListener("focusin", show);
      document.removeEventListener("focusout", hide);
      document.removeEventListener("scroll", hide, { capture: true });
      document.removeEventListener("keydown", onKey);
    };
  }, []);
  if (!shown) return null;
  return <Tooltip key={shown.text} target={shown.target} label={shown.text} opened multiline maw={360} />;
}
