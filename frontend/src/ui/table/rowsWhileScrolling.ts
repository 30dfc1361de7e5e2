import { defaultRangeExtractor, type Range } from "@tanstack/react-virtual";

/**
 * Which rows are drawn while a list is scrolled: those in view and `overscan` more at both ends, but none more where
 * all in view are new. Who scrolls so fast would never see them, and each costs as much as one in view.
 */
export function rowsWhileScrolling(): (range: Range) => number[] {
  let before: Pick<Range, "startIndex" | "endIndex"> | undefined;
  return (range) => {
    const isNew = before !== undefined && (range.startIndex > before.endIndex || range.endIndex < before.startIndex);
    before = range;
    return defaultRangeExtractor(isNew ? { ...range, overscan: 0 } : range);
  };
}
