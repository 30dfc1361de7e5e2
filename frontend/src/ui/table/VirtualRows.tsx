import { useVirtualizer } from "@tanstack/react-virtual";
import { useEffect, type ReactNode, type RefObject } from "react";

const ROW_PX = 40;
/** Rows behind the last drawn one that should be there already: a piece ahead, however fast the user scrolls. */
const ROWS_AHEAD = 500;

/** The rows of a long list that are in sight. */
export default function VirtualRows({
  keys,
  scroller,
  columns,
  hasMore,
  onNearEnd,
  children,
}: {
  keys: readonly string[];
  scroller: RefObject<HTMLDivElement | null>;
  columns: number;
  hasMore: boolean;
  onNearEnd?: () => void;
  /** Draws the row at an index. */
  children: (index: number, measure: (element: Element | null) => void) => ReactNode;
}) {
  // eslint-disable-next-line react-hooks/incompatible-library -- the virtualizer is used in this render only
  const virtual = useVirtualizer({
    count: keys.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: 12,
    getItemKey: (index) => keys[index] ?? index,
  });
  const items = virtual.getVirtualItems();
  const isNearEnd = hasMore && (items.at(-1)?.index ?? 0) >= keys.length - ROWS_AHEAD;
  useEffect(() => {
    if (isNearEnd) onNearEnd?.();
  }, [isNearEnd, onNearEnd, keys.length]);
  const above = items[0]?.start ?? 0;
  const below = virtual.getTotalSize() - (items.at(-1)?.end ?? 0);
  return (
    <>
      {above > 0 && <Spacer px={above} columns={columns} />}
      {items.map(({ index }) => children(index, virtual.measureElement))}
      {below > 0 && <Spacer px={below} columns={columns} />}
    </>
  );
}

function Spacer({ px, columns }: { px: number; columns: number }) {
  return (
    <tr aria-hidden>
      <td colSpan={columns} style={{ height: px, padding: 0, border: 0 }} />
    </tr>
  );
}
