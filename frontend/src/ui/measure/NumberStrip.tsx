import "@/ui/measure/strip.css";
import type { ReactNode } from "react";
import { Sparkline } from "@/ui/chart/Sparkline";
import type { ChartColour } from "@/ui/chart/types";

/** The numbers of a page in one strip, which wraps on narrow screens. */
export function NumberStrip({ children }: { children: ReactNode }) {
  return <dl className="strip">{children}</dl>;
}

/**
 * One number of a strip: what it is called, its value (`children`, most often a `Measured`, or a link with one), what
 * it means on hover and focus, and how it developed.
 */
export function StripNumber({
  label,
  hint,
  note,
  history,
  colour,
  children,
}: {
  label: string;
  hint?: string | undefined;
  /** A short addition behind the value ("of 3"). */
  note?: ReactNode;
  /** Earlier values, oldest first; null where unknown. */
  history?: readonly (number | null)[] | undefined;
  /** Of the line of `history`. */
  colour?: ChartColour | undefined;
  children: ReactNode;
}) {
  return (
    <div className="strip-number" data-tile={label}>
      <dt>
        {hint ? (
          // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- what the number means is shown on focus
          <span data-hint={hint} tabIndex={0}>
            {label}
          </span>
        ) : (
          label
        )}
      </dt>
      <dd>
        {children}
        {note && <small>{note}</small>}
      </dd>
      {history && (
        <dd className="strip-history">
          <Sparkline values={history} colour={colour} />
        </dd>
      )}
    </div>
  );
}
