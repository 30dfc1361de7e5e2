import { useEffect, type RefObject } from "react";

/** Marks a frame where there is more to scroll sideways: `data-more-left`, `data-more-right`. It redraws nothing. */
export function useEdges(frame: RefObject<HTMLElement | null>, scroller: RefObject<HTMLElement | null>): void {
  useEffect(() => {
    const region = scroller.current;
    if (!region) return undefined;
    const look = () => {
      const hidden = region.scrollWidth - region.clientWidth;
      frame.current?.toggleAttribute("data-more-left", region.scrollLeft > 1);
      frame.current?.toggleAttribute("data-more-right", region.scrollLeft < hidden - 1);
    };
    const sizes = new ResizeObserver(look);
    sizes.observe(region);
    for (const child of region.children) sizes.observe(child);
    region.addEventListener("scroll", look, { passive: true });
    return () => {
      sizes.disconnect();
      region.removeEventListener("scroll", look);
    };
  }, [frame, scroller]);
}
