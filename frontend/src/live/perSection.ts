import type { Section } from "@/live/applyDelta";

/** A function of a live section that is worked out once for each state of it, however many ask. */
export function perSection<Result>(of: (entries: Section) => Result): (entries: Section) => Result {
  const remembered = new WeakMap<Section, { result: Result }>();
  return (entries) => {
    const known = remembered.get(entries) ?? { result: of(entries) };
    remembered.set(entries, known);
    return known.result;
  };
}
