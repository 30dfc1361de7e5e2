import type { MantineTheme } from "@mantine/core";
import uPlot from "uplot";
import type { Zone } from "@/format/times";
import type { Band, ChartColour, Series } from "@/ui/chart/TimeChart";
import { inFull, instantShort, onAxis, steps, timesOnAxis } from "@/ui/chart/words";

const ORDER: readonly ChartColour[] = ["blue", "orange", "teal", "grape", "red", "cyan", "lime", "gray"];
/** Lines differ by their dashes too: nobody has to tell colours apart. */
const DASHES: readonly number[][] = [[], [8, 4], [2, 3], [10, 3, 2, 3]];

/** A chart but for its numbers; only when this changes is it drawn anew. */
export interface Shape {
  series: readonly Omit<Series, "values">[];
  bands: readonly Omit<Band, "low" | "high">[];
}

export interface Look {
  theme: MantineTheme;
  scheme: "light" | "dark";
  language: string;
  zone: Zone;
  words: { time: string; unknown: string };
}

/** What uPlot is told, without size and events. */
export function optionsOf({ series, bands }: Shape, look: Look): Omit<uPlot.Options, "width" | "height"> {
  const { theme, scheme, language, zone, words } = look;
  const shade = scheme === "dark" ? 4 : 7;
  // Gray stands back in both schemes.
  const paint = (colour: ChartColour) => theme.colors[colour][colour === "gray" ? 6 : shade];
  const ink = scheme === "dark" ? theme.colors.dark[1] : theme.colors.gray[7];
  const line = scheme === "dark" ? theme.colors.dark[5] : theme.colors.gray[2];
  const left = series.find(({ axis }) => axis !== "right");
  const right = series.find(({ axis }) => axis === "right");
  const axis = {
    stroke: ink,
    grid: { stroke: line, width: 1 },
    ticks: { stroke: line, width: 1 },
    font: `11px ${theme.fontFamily}`,
  };
  // From zero up, with some room; what is zero throughout gets an axis all the same.
  const range: uPlot.Range.Config = { min: { soft: 0, mode: 1, pad: 0 }, max: { soft: 1, mode: 2, pad: 0.1 } };
  const values = (of: Omit<Series, "values"> | undefined) => ({
    size: 64,
    incrs: steps(of?.as) as number[] | undefined,
    values: (_: uPlot, ticks: number[]) => ticks.map((tick) => onAxis(tick, of?.as, language)),
  });
  // Beside the chart stands what is pointed at, else what was measured last.
  const pointed = (self: uPlot, index: number) => self.data[index]?.[self.cursor.idx ?? self.data[0].length - 1];
  const formatted = (as: Series["as"]) => (self: uPlot, _: unknown, index: number) => {
    const value = pointed(self, index);
    return typeof value === "number" ? inFull(value, as, language) : words.unknown;
  };
  return {
    tzDate: (seconds) =>
      zone === "utc" ? uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC") : new Date(seconds * 1000),
    scales: { left: { range }, right: { range } },
    series: [
      {
        label: words.time,
        value: (self) => {
          const seconds = pointed(self, 0);
          return typeof seconds === "number" ? instantShort(seconds, zone) : "—";
        },
      },
      ...series.map(({ label, as, axis: side, style, colour }, index): uPlot.Series => {
        const stroke = paint(colour ?? ORDER[index % ORDER.length] ?? "blue");
        const isFilled = style === "area" || style === "bars";
        return {
          label,
          scale: side === "right" ? "right" : "left",
          stroke,
          width: 2,
          dash: isFilled ? undefined : DASHES[index % DASHES.length],
          spanGaps: false,
          fill: isFilled ? `${stroke}33` : undefined,
          paths: style === "bars" ? uPlot.paths.bars?.({ size: [0.8, 60] }) : undefined,
          points: { show: false },
          value: formatted(as),
        };
      }),
      ...bands.flatMap(({ label, colour }): uPlot.Series[] =>
        [`${label} ↑`, `${label} ↓`].map((edge) => ({
          label: edge,
          scale: "left",
          stroke: `${paint(colour ?? "gray")}88`,
          width: 1,
          dash: [4, 4],
          points: { show: false },
          value: formatted(left?.as),
        })),
      ),
    ],
    bands: bands.map(({ colour }, index) => {
      const first = 1 + series.length + index * 2;
      return { series: [first, first + 1], fill: `${paint(colour ?? "gray")}22` };
    }),
    axes: [
      { ...axis, values: (_, ticks, _axis, _space, step) => timesOnAxis(ticks, step, zone) },
      { ...axis, ...values(left), scale: "left" },
      ...(right
        ? [
            {
              ...axis,
              ...values(right),
              scale: "right",
              // eslint-disable-next-line @typescript-eslint/no-unsafe-enum-assignment -- a const enum has no value to import
              side: 1 as uPlot.Axis.Side,
              grid: { show: false },
            },
          ]
        : []),
    ],
  };
}
