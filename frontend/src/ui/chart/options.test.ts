import { DEFAULT_THEME } from "@mantine/core";
import type uPlot from "uplot";
import { expect, test } from "vitest";
import { axisTitle, axisWidth, optionsOf, rangeOf, swatch, type Look, type Shape } from "@/ui/chart/options";

const units = { count: "Count", rate: "Per second" };
const look: Look = {
  theme: DEFAULT_THEME,
  scheme: "light",
  language: "en-GB",
  zone: "utc",
  words: { time: "Time", unknown: "unknown", units, sides: { left: "(left)", right: "(right)" } },
};
const shape: Shape = {
  series: [
    { label: "Lag", as: "count", style: "area" },
    { label: "Time lag", as: "duration", axis: "right" },
  ],
  bands: [],
};

test("an axis has the names of its lines, or what they count where there are many", () => {
  expect(axisTitle([{ label: "Sent/s" }, { label: "Acked/s" }], units)).toBe("Sent/s, Acked/s");
  const wide = ["发送/秒", "确认/秒", "拉取/秒"].map((label) => ({ label, as: "rate" as const }));
  expect(axisTitle(wide, units)).toBe("Per second");
  const many = ["order.created", "order.paid", "click.tracked"].map((label) => ({ label, as: "rate" as const }));
  expect(axisTitle(many, units)).toBe("Per second");
  expect(
    axisTitle(
      many.map((line) => ({ ...line, unit: "Messages" })),
      units,
    ),
  ).toBe("Messages");
});

test("with two axes each line says which is its own", () => {
  const { axes, series } = optionsOf(shape, look);
  expect(axes?.map(({ label }) => label)).toEqual([undefined, "Lag", "Time lag"]);
  expect(series.map(({ label }) => label)).toEqual(["Time", "Lag (left)", "Time lag (right)"]);
});

test("an axis has room for its values", () => {
  expect(axisWidth(["0s", "1m"])).toBe(axisWidth([]));
  expect(axisWidth(["0秒", "2小时30分钟"])).toBeGreaterThan(11 * 6);
});

test("an axis begins at zero, and has room above its highest value", () => {
  expect(rangeOf(55, 55.5)).toEqual([0, 62]);
  expect(rangeOf(-3, 10)[0]).toBe(-3);
  expect(rangeOf(0, 0)[1]).toBeGreaterThan(0);
  expect(rangeOf(null, null)).toEqual([null, null]);
});

test("with one axis names are enough", () => {
  const { series } = optionsOf({ ...shape, series: shape.series.slice(0, 1) }, look);
  expect(series.map(({ label }) => label)).toEqual(["Time", "Lag"]);
});

test("the legend shows lines as they are drawn", () => {
  expect(swatch("#111", [], "line")).toBe("linear-gradient(#111 0 100%) center / 100% 2px no-repeat");
  expect(swatch("#111", [8, 4], "line")).toContain("#111 0px 8px, transparent 8px 12px");
  expect(swatch("#111", [], "area")).toBe("linear-gradient(#111 0 2px, #11133 2px)");
});

test("bars are opaque, and the legend has the number of each without those below it", () => {
  const bars = ["timeout", "refused"].map((label) => ({ label, style: "bars" as const }));
  const [, first, second] = optionsOf({ series: bars, bands: [] }, look).series;
  expect(first?.fill).toBe(first?.stroke);
  const drawn = { data: [[0], [5], [2]], cursor: {} } as unknown as uPlot;
  const shown = [first, second].map((one, at) => typeof one?.value === "function" && one.value(drawn, 0, at + 1, null));
  expect(shown).toEqual(["3", "2"]);
});

test("times on the axis are whole seconds apart, with room between them", () => {
  const [time] = optionsOf(shape, look).axes ?? [];
  expect(Array.isArray(time?.incrs) && Math.min(...time.incrs)).toBe(1);
  expect(time?.space).toBe(80);
});
