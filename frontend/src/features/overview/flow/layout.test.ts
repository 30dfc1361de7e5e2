import { expect, test } from "vitest";
import { BOX_MIN, layoutFlow } from "@/features/overview/flow/layout";
import type { Flow, FlowPlace } from "@/features/overview/queries";

function place(id: string, rate: number, kind: FlowPlace["kind"] = "subject"): FlowPlace {
  return { id, kind, name: id, subject: "", count: 1, rate, lag: null, state: null };
}

function flow(columns: [FlowPlace[], FlowPlace[], FlowPlace[]], links: [string, string, number][]): Flow {
  const [applications, subjects, groups] = columns;
  return {
    at: null,
    reason: null,
    unreachable: {},
    applications,
    subjects,
    groups,
    links: links.map(([sender, receiver, rate]) => ({ sender, receiver, rate })),
  };
}

const TWO = flow(
  [[place("a0", 30), place("a1", 10)], [place("s0", 40)], [place("g0", 20), place("g1", 0)]],
  [
    ["a0", "s0", 30],
    ["a1", "s0", 10],
    ["s0", "g0", 20],
    ["s0", "g1", 0],
  ],
);

test("widths are rates on one scale, and everything is within the picture", () => {
  const { boxes, bands } = layoutFlow(TWO, 800, 300);
  const width = (id: string) => bands.find((band) => band.id === id)?.width ?? 0;
  expect(width("a0 s0") / width("a1 s0")).toBeCloseTo(3);
  expect(width("s0 g0") / width("a1 s0")).toBeCloseTo(2);
  expect(width("s0 g1")).toBe(1);
  for (const { y, height } of boxes) {
    expect(y).toBeGreaterThanOrEqual(0);
    expect(y + height).toBeLessThanOrEqual(300.01);
    expect(height).toBeGreaterThanOrEqual(BOX_MIN);
  }
  const [a0, a1] = boxes;
  expect(a1?.y).toBeGreaterThanOrEqual((a0?.y ?? 0) + (a0?.height ?? 0));
});

test("bands of one box do not cross each other's ends", () => {
  const { bands } = layoutFlow(TWO, 800, 300);
  const ends = (band?: { path: string; width: number }) => {
    const y = Number(band?.path.split(" ").at(-1));
    return [y - (band?.width ?? 0) / 2, y + (band?.width ?? 0) / 2];
  };
  const [, first = 0] = ends(bands.find(({ id }) => id === "a0 s0"));
  const [second = 0] = ends(bands.find(({ id }) => id === "a1 s0"));
  expect(second).toBeGreaterThanOrEqual(first - 0.2);
});

test("a full picture fits, and nothing flowing is drawn without a scale", () => {
  const many = (prefix: string, count: number) =>
    Array.from({ length: count }, (_, n) => place(`${prefix}${n}`, 1000 - n));
  const { boxes } = layoutFlow(flow([many("a", 9), many("s", 13), many("g", 13)], []), 700, 300);
  expect(boxes).toHaveLength(35);
  expect(Math.max(...boxes.map(({ y, height }) => y + height))).toBeLessThanOrEqual(300.01);
  const { boxes: quiet, bands } = layoutFlow(
    flow([[], [place("s0", 0)], [place("g0", 0)]], [["s0", "g0", 0]]),
    700,
    300,
  );
  expect(quiet.map(({ height }) => height)).toEqual([BOX_MIN, BOX_MIN]);
  expect(bands[0]?.path).not.toContain("NaN");
});

test("a link of a place that is not there is left out", () => {
  expect(layoutFlow(flow([[], [place("s0", 1)], []], [["a9", "s0", 1]]), 700, 300).bands).toEqual([]);
});
