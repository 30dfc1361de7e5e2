import { useRouter, type RouterHistory } from "@tanstack/react-router";
import type { MouseEvent, ReactNode } from "react";

/** An address inside the console, each part encoded: `addressOf("subjects", name)`. */
export function addressOf(...parts: string[]): string {
  return `/${parts.map(encodeURIComponent).join("/")}`;
}

/**
 * A link of a list's row. `LinkTo` knows whether it is active and loads ahead; hundreds of them are felt while
 * scrolling.
 */
export function RowLink({ to, className, children }: { to: string; className?: string; children: ReactNode }) {
  const { history } = useRouter() as { history: RouterHistory };
  const go = (event: MouseEvent) => {
    const isElsewhere = event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || event.button !== 0;
    if (isElsewhere) return;
    event.preventDefault();
    history.push(to);
  };
  return (
    <a href={to} onClick={go} className={className ? `row-link ${className}` : "row-link"}>
      {children}
    </a>
  );
}
