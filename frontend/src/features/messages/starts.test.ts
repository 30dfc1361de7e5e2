import { expect, test } from "vitest";
import { goTo, orderOf, startOf } from "@/features/messages/starts";

test("the newest messages come first unless the address says otherwise", () => {
  expect(startOf({})).toBe("newest");
  expect(startOf({ by: "oldest" })).toBe("oldest");
  expect(startOf({ by: "nonsense" })).toBe("newest");
  expect([orderOf("newest"), orderOf("oldest"), orderOf("time"), orderOf("sequence"), orderOf("id")]).toEqual([
    "newest",
    "oldest",
    "oldest",
    "oldest",
    undefined,
  ]);
});

test("another start keeps the broker group only, and a sequence is one of a group", () => {
  const search = { by: "time", from_time: "2026-01-01T00:00:00Z", cursor: "c", message: "g1:7" };
  expect(goTo("oldest", search, ["g1", "g2"])).toMatchObject({ by: "oldest", from_time: undefined, cursor: undefined });
  expect(goTo("newest", search, ["g1", "g2"]).by).toBeUndefined();
  expect(goTo("sequence", search, ["g1", "g2"]).broker_group).toBe("g1");
  expect(goTo("sequence", { ...search, broker_group: "g2" }, ["g1", "g2"]).broker_group).toBe("g2");
});
