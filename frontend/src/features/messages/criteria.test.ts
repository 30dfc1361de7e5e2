import { expect, test } from "vitest";
import { criteriaOf, notSearched, queryOf, searchOf } from "@/features/messages/criteria";

test("criteria go into the address and come back, and to the API by its names", () => {
  const criteria = { filter: 'status=paid "late"', from: "2026-01-01T00:00:00Z", to: "", brokerGroup: "main" };
  const search = Object.fromEntries(Object.entries(searchOf(criteria)).filter(([, value]) => value !== undefined));
  expect(criteriaOf(search as Record<string, string>)).toEqual(criteria);
  expect(queryOf(criteria)).toEqual({
    filter: 'status=paid "late"',
    from_time: "2026-01-01T00:00:00Z",
    broker_group: "main",
  });
});

test("nothing asked for is no search", () => {
  expect(criteriaOf({ after: "2026-01-01T00:00:00Z", broker_group: "main" })).toBeNull();
  expect(criteriaOf({ filter: "  " })).toBeNull();
});

test("the parts that a filter did not search are named", () => {
  expect(notSearched(["properties"])).toEqual(["body", "tags"]);
  expect(notSearched(["properties", "body"])).toEqual(["tags"]);
  expect(notSearched(["size"])).toEqual([]);
});
