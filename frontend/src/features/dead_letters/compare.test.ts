import { expect, test } from "vitest";
import { columnsOf, propertyRows } from "@/features/dead_letters/compare";
import { attempt, story } from "@/features/dead_letters/stories.testing";

test("each attempt is a column, the letter the last; how long it took is known only with both ends", () => {
  const columns = columnsOf(
    story({
      story: [
        attempt(1, { pulled_at: "2026-01-01T00:00:01Z", ended_at: "2026-01-01T00:00:03.5Z" }),
        attempt(2, { pulled_at: null, ended_at: "2026-01-01T00:00:09Z" }),
      ],
    }),
  );
  expect(columns.map((column) => [column.attempt, column.tookSeconds])).toEqual([
    [1, 2.5],
    [2, null],
    [null, null],
  ]);
});

test("properties stand side by side; what a consumer changed is marked", () => {
  const rows = propertyRows(
    columnsOf(
      story({
        story: [attempt(1, { properties: { id: "7" } }), attempt(2, { properties: { id: "7", error: "no card" } })],
        properties: { id: "7", error: "no card", qmq_times: "3" },
      }),
    ),
  );
  expect(rows).toEqual([
    { name: "error", isSystem: false, values: [null, "no card", "no card"], isChanged: [false, true, false] },
    { name: "id", isSystem: false, values: ["7", "7", "7"], isChanged: [false, false, false] },
    { name: "qmq_times", isSystem: true, values: [null, null, "3"], isChanged: [false, false, true] },
  ]);
});

test("what is masked shows nothing and changes nothing", () => {
  expect(
    propertyRows(columnsOf(story({ properties: null, masked: true, story: [attempt(1, { properties: null })] }))),
  ).toEqual([]);
});
