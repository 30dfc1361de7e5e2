import "@/ui/table/table.css";
import { useRef, type KeyboardEvent, type ReactNode, type RefObject } from "react";
import { useEdges } from "@/ui/table/useEdges";

/** What a table is scrolled in; a shade at its edge says that there is more sideways. */
export function Frame({
  label,
  scroller,
  hasCards = false,
  children,
}: {
  label: string;
  scroller?: RefObject<HTMLDivElement | null>;
  /** Whether rows are cards on a phone: cells have their parts as classes. */
  hasCards?: boolean;
  children: ReactNode;
}) {
  const frame = useRef<HTMLDivElement>(null);
  const own = useRef<HTMLDivElement>(null);
  const region = scroller ?? own;
  useEdges(frame, region);
  return (
    <div ref={frame} className="table-frame" data-cards={hasCards || undefined}>
      {/* eslint-disable-next-line jsx-a11y/no-noninteractive-element-interactions -- a scrolled region has to be reachable by keyboard */}
      <div
        ref={region}
        className="table-scroll"
        // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex
        tabIndex={0}
        role="region"
        aria-label={label}
        onKeyDown={onEdgeKey}
      >
        {children}
      </div>
    </div>
  );
}

/** Home and End at once: the browser's smooth way there ends where rows on it turn out higher than was thought. */
function onEdgeKey(event: KeyboardEvent<HTMLElement>) {
  const region = event.currentTarget;
  if (event.target !== region || (event.key !== "Home" && event.key !== "End")) return;
  event.preventDefault();
  region.scrollTo({ top: event.key === "Home" ? 0 : region.scrollHeight, behavior: "instant" });
}
