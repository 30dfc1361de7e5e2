import type { TooltipProps } from "@mantine/core";
import { useEffect, useState } from "react";
import { whenDrawn } from "@/ui/dialog/whenOpened";

const Tooltip = whenDrawn<TooltipProps>(async () => (await import("@/ui/menu/TooltipBox")).Tooltip);

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
 * What elements with `data-hint` say on hover and focus. One tooltip for the whole page: a list draws hundreds of
 * cells, and a tooltip component around each of them costs more than the cell.
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
  const target = shown?.target;
  // A hint may change while it is shown, as of a button that has copied something.
  useEffect(() => {
    if (!target) return undefined;
    const changes = new MutationObserver(() => {
      const text = target.dataset.hint;
      setShown(text ? { target, text } : null);
    });
    changes.observe(target, { attributeFilter: ["data-hint"] });
    return () => changes.disconnect();
  }, [target]);
  if (!shown) return null;
  return (
    <Tooltip key={shown.text} target={shown.target} label={shown.text} opened multiline maw={360} className="hint" />
  );
}
