import type { Column } from "@/ui/table/types";

/** Facts of a card whose columns don't say which. */
const FACTS = 4;

/** What each column is on a card, as a class: its name, its state, a fact, what can be done, or nothing. Pure. */
export function cardParts(columns: readonly Pick<Column<never>, "isFixed" | "card">[]): readonly string[] {
  const hasFacts = columns.some(({ card }) => card === "fact");
  let left = FACTS;
  return columns.map(({ isFixed, card }) => {
    if (card) return `card-${card}`;
    if (isFixed) return "card-name";
    left -= 1;
    return hasFacts || left < 0 ? "card-none" : "card-fact";
  });
}
