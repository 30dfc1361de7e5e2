import { expect, test } from "vitest";
import { parseOpen, toggled } from "@/features/subjects/tree/openFolders";

test("folders are opened and closed; a closed one closes what is in it", () => {
  expect([...parseOpen(undefined)]).toEqual([]);
  const open = parseOpen(toggled(parseOpen("order."), "order.paid."));
  expect([...open]).toEqual(["order.", "order.paid."]);
  expect(toggled(open, "order.paid.")).toBe("order.");
  expect(toggled(new Set([...open, "orders."]), "order.")).toBe("orders.");
  expect(toggled(open, "order.")).toBeUndefined();
});
