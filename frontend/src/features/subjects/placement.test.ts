import { expect, test } from "vitest";
import { placesOf, stepsOf, targetsOf } from "@/features/subjects/placement";

const moving = {
  broker_groups: ["b1", "b2", "b3", "b4"],
  phases: { b1: "draining", b3: "joining", b4: "leaving" },
} as const;
const route = { ...moving, broker_groups: [...moving.broker_groups] };

test("who comes, who stays, who goes", () => {
  expect(placesOf(route)).toEqual([
    { brokerGroup: "b3", standing: "joining" },
    { brokerGroup: "b2", standing: "serving" },
    { brokerGroup: "b4", standing: "leaving" },
    { brokerGroup: "b1", standing: "draining" },
  ]);
  expect(targetsOf(route)).toEqual(["b2", "b3"]);
});

test("a preview's steps are the broker groups whose standing changes", () => {
  const before = { broker_groups: ["b1", "b2"], phases: {} };
  const after = { broker_groups: ["b1", "b2", "b3"], phases: { b1: "leaving", b3: "joining" } };
  expect(stepsOf(before, after)).toEqual([
    { brokerGroup: "b3", standing: "joining" },
    { brokerGroup: "b1", standing: "leaving" },
  ]);
  expect(stepsOf(before, before)).toEqual([]);
  expect(stepsOf(after, before)).toEqual([{ brokerGroup: "b1", standing: "serving" }]);
});
