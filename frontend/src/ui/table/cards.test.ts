import { expect, test } from "vitest";
import { cardParts } from "@/ui/table/cards";

test("a card has the row's name, its state, and the facts that the columns name", () => {
  const columns = [{ isFixed: true }, {}, { card: "state" }, { card: "fact" }, {}] as const;
  expect(cardParts(columns)).toEqual(["card-name", "card-none", "card-state", "card-fact", "card-none"]);
});

test("what can be done with a row stays, though its column can't be hidden either", () => {
  expect(cardParts([{ isFixed: true }, { isFixed: true, card: "action" }])).toEqual(["card-name", "card-action"]);
});

test("where no column says so, the first four are facts", () => {
  const columns = [{}, { isFixed: true }, {}, { card: "state" }, {}, {}, {}] as const;
  const facts = ["card-fact", "card-name", "card-fact", "card-state", "card-fact", "card-fact", "card-none"];
  expect(cardParts(columns)).toEqual(facts);
});
