import { useMediaQuery } from "@mantine/hooks";
import { useVirtualizer, useWindowVirtualizer, type VirtualItem } from "@tanstack/react-virtual";
import { useEffect, useState, type ReactNode, type RefObject } from "react";

const ROW_PX = 40;
/** A row as a card. */
const CARD_PX = 110;
/** Rows behind the last drawn one that should be there already: a piece ahead, however fast the user scrolls. */
const ROWS_AHEAD = 500;
/** Where rows are cards and scroll with the page, as table.css has it. */
const PHONE = "(max-width: 600px)";
const OVERSCAN = 12;

interface Props {
  keys: readonly string[];
  scroller: RefObject<HTMLDivElement | null>;
  columns: number;
  hasMore: boolean;
  onNearEnd?: () => void;
  /** Draws the row at an index. */
  children: (index: number, measure: (element: Element | null) => void) => ReactNode;
}

/** The rows of a long list that are in sight: of what the list scrolls in, or, on a phone, of the page. */
export default function VirtualRows(props: Props) {
  const isPhone = useMediaQuery(PHONE, false, { getInitialValueInEffect: false });
  return isPhone ? <RowsOfPage {...props} /> : <RowsOfBox {...props} />;
}

function RowsOfBox(props: Props) {
  const { keys, scroller } = props;
  // eslint-disable-next-line react-hooks/incompatible-library -- the virtualizer is used in this render only
  const virtual = useVirtualizer({
    count: keys.length,
    getScrollElement: () => scroller.current,
    estimateSize: () => ROW_PX,
    overscan: OVERSCAN,
    getItemKey: (index) => keys[index] ?? index,
  });
  const items = virtual.getVirtualItems();
  return <Rows {...props} items={items} px={virtual.getTotalSize()} top={0} measure={virtual.measureElement} />;
}

function RowsOfPage(props: Props) {
  const { keys, scroller } = props;
  const top = useTop(scroller);
  const virtual = useWindowVirtualizer({
    count: keys.length,
    estimateSize: () => CARD_PX,
    overscan: OVERSCAN,
    getItemKey: (index) => keys[index] ?? index,
    scrollMargin: top,
  });
  const items = virtual.getVirtualItems();
  return <Rows {...props} items={items} px={virtual.getTotalSize()} top={top} measure={virtual.measureElement} />;
}

/** Where on the page an element begins; what stands above it may grow. */
function useTop(of: RefObject<HTMLElement | null>): number {
  const [top, setTop] = useState(0);
  useEffect(() => {
    const observer = new ResizeObserver(() => {
      if (of.current) setTop(Math.round(of.current.getBoundingClientRect().top + window.scrollY));
    });
    observer.observe(document.body);
    return () => observer.disconnect();
  }, [of]);
  return top;
}

function Rows({
  keys,
  columns,
  hasMore,
  onNearEnd,
  children,
  items,
  px,
  top,
  measure,
}: Props & {
  items: readonly VirtualItem[];
  /** Height of all rows, and where they begin. */
  px: number;
  top: number;
  measure: (element: Element | null) => void;
}) {
  const isNearEnd = hasMore && (items.at(-1)?.index ?? 0) >= keys.length - ROWS_AHEAD;
  useEffect(() => {
    if (isNearEnd) onNearEnd?.();
  }, [isNearEnd, onNearEnd, keys.length]);
  const above = (items[0]?.start ?? top) - top;
  const below = px - ((items.at(-1)?.end ?? top) - top);
  return (
    <>
      {above > 0 && <Spacer px={above} columns={columns} />}
      {items.map(({ index }) => children(index, measure))}
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
