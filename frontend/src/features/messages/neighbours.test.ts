import { expect, test } from "vitest";
import { neighboursOf } from "@/features/messages/neighbours";

test("a message has the rows beside it as neighbours, none at an end, none when it is not listed", () => {
  const keys = ["g1:9", "g2:4", "g1:8"];
  expect(neighboursOf(keys, "g2:4")).toEqual({ previous: "g1:9", next: "g1:8" });
  expect(neighboursOf(keys, "g1:9")).toEqual({ previous: undefined, next: "g2:4" });
  expect(neighboursOf(keys, "g1:8")).toEqual({ previous: "g2:4", next: undefined });
  expect(neighboursOf(keys, "g1:1")).toEqual({});
});
