import { useCallback, useMemo } from "react";
import { PRESET_FIRST, rangeOf, type Range } from "@/shared/ranges/range";
import { useUrlState } from "@/ui/links/urlState";

/** The range of a page's charts, and how to choose another one by its text in the address. */
export function useRange(): [Range, (text: string) => void] {
  const [{ range: text }, change] = useUrlState();
  const range = useMemo(() => rangeOf(text), [text]);
  const setRange = useCallback(
    (chosen: string) => change({ range: chosen === PRESET_FIRST ? undefined : chosen }),
    [change],
  );
  return [range, setRange];
}
