import "@/ui/table/table.css";
import type { ReactNode } from "react";

/** What a wide table is scrolled sideways in, by keyboard too. */
export function Sideways({ label, children }: { label: string; children: ReactNode }) {
  return (
    // A group and not a region: the part of the page around it often has the same name.
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- what is scrolled has to be reachable by keyboard
    <div className="sideways" tabIndex={0} role="group" aria-label={label}>
      {children}
    </div>
  );
}
