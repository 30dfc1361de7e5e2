import { useMediaQuery } from "@mantine/hooks";
import { defaultRangeExtractor, useVirtualizer, useWindowVirtualizer, type VirtualItem } from "@tanstack/react-virtual";
import { useEffect, useMemo, useState, type ReactNode, type RefObject } from "react";
import { rowsWhileScrolling } from "@/ui/table/rowsWhileScrolling";

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
  const [usualPx, setUsualPx] = useState(ROW_PX);
  const options = useOptions(keys, usualPx);
  // eslint-disable-next-line react-hooks/incompatible-library -- the virtualizer is used in this render only
  const virtual = useVirtualizer({
    ...options,
    getScrollElement: () => scroller.current,
    // It may have been scrolled while this part was loaded.
    initialOffset: () => scroller.current?.scrollTop ?? 0,
  });
  const items = virtual.getVirtualItems();
  useUsualPx(items, setUsualPx);
  return <Rows {...props} items={items} px={virtual.getTotalSize()} top={0} measure={virtual.measureElement} />;
}

function RowsOfPage(props: Props) {
  const top = useTop(props.scroller);
  const [usualPx, setUsualPx] = useState(CARD_PX);
  const options = useOptions(props.keys, usualPx);
  const virtual = useWindowVirtualizer({ ...options, scrollMargin: top });
  const items = virtual.getVirtualItems();
  useUsualPx(items, setUsualPx);
  return <Rows {...props} items={items} px={virtual.getTotalSize()} top={top} measure={virtual.measureElement} />;
}

/** What both virtualizers receive. */
function useOptions(keys: readonly string[], usualPx: number) {
  const [isScrolling, setScrolling] = useState(false);
  const [whileScrolling] = useState(rowsWhileScrolling);
  // With another `getItemKey` the virtualizer works out the places of all rows: with other rows, or another estimate.
  const places = useMemo(
    () => ({ getItemKey: (index: number) => keys[index] ?? index, estimateSize: () => usualPx }),
    [keys, usualPx],
  );
  return {
    ...places,
    count: keys.length,
    overscan: OVERSCAN,
    rangeExtractor: isScrolling ? whileScrolling : defaultRangeExtractor,
    onChange: (virtual: { isScrolling: boolean }) => setScrolling(virtual.isScrolling),
  };
}

/**
 * Takes the usual height of the rows at the begin of the list for that of rows not drawn yet. Each row of another
 * height than was thought moves all that follow. Only there: further down what is in view would move.
 */
function useUsualPx(items: readonly VirtualItem[], set: (px: number) => void): void {
  useEffect(() => {
    if (items[0]?.index !== 0) return;
    const sizes = items.map(({ size }) => size).sort((one, other) => one - other);
    set(sizes[Math.floor(sizes.length / 2)] ?? 0);
  }, [items, set]);
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
