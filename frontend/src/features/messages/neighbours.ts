import { useHotkeys } from "@mantine/hooks";

/** The keys of the rows before and behind one in a list; undefined: there is none. Pure. */
export function neighboursOf(keys: readonly string[], key: string): { previous?: string; next?: string } {
  const at = keys.indexOf(key);
  if (at < 0) return {};
  return { previous: keys[at - 1], next: keys[at + 1] };
}

/** J and K, or the arrows to the right and left, go to the next and the previous one. */
export function useNeighbourKeys({ previous, next }: { previous?: string; next?: string }, go: (key: string) => void) {
  const to = (key: string | undefined) => () => {
    if (key !== undefined) go(key);
  };
  useHotkeys([
    ["J", to(next)],
    ["ArrowRight", to(next)],
    ["K", to(previous)],
    ["ArrowLeft", to(previous)],
  ]);
}
