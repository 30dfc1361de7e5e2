import { useCallback, type KeyboardEvent } from "react";
import { pointedAfter, zoomedAfter, type Range } from "@/ui/chart/keys";

interface Doing {
  /** Set the pointer to a point. */
  point: (index: number) => void;
  pointed: () => number | null;
  /** The zoomed range; null: all is shown. */
  shown: () => Range | null;
  show: (range: Range | null) => void;
}

/** What the mouse does, by keyboard: arrows move the pointer, + and - zoom around it, 0 and Escape show all. */
export function useKeys(at: readonly number[], doing: Doing): (event: KeyboardEvent) => void {
  const { point, pointed, shown, show } = doing;
  return useCallback(
    (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || at.length === 0) return;
      const index = pointedAfter(event.key, pointed() ?? at.length - 1, at.length);
      const range = zoomedAfter(event.key, at, pointed() ?? at.length - 1, shown());
      if (index === undefined && range === undefined) return;
      event.preventDefault();
      if (index !== undefined) point(index);
      if (range !== undefined) show(range);
    },
    [at, point, pointed, shown, show],
  );
}
