import type { MantineTheme } from "@mantine/core";
import uPlot from "uplot";
import type { Zone } from "@/format/times";
import { baseOf } from "@/ui/chart/stack";
import type { Band, ChartColour, Series } from "@/ui/chart/types";
import { inFull, instantShort, onAxis, steps, timesOnAxis } from "@/ui/chart/words";

const ORDER: readonly ChartColour[] = ["blue", "orange", "teal", "grape", "red", "cyan", "lime", "gray"];
/** Lines differ by their dashes too, for users who can't distinguish the colours. */
const DASHES: readonly number[][] = [[], [8, 4], [2, 3], [10, 3, 2, 3]];

/** Seconds between two times on the axis. Times are written to the second, so shorter steps would repeat themselves. */
export const TIME_STEPS: readonly number[] = [
  1, 5, 10, 15, 30, 60, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 14_400, 21_600, 43_200, 86_400, 172_800, 604_800,
  2_592_000,
];
/** Room for a time with its seconds, so that neighbours don't touch. */
export const TIME_SPACE_PX = 80;

/** A chart without its numbers; only when this changes is uPlot created again. */
export interface Shape {
  series: readonly Omit<Series, "values">[];
  bands: readonly Omit<Band, "low" | "high">[];
}

export interface Look {
  theme: MantineTheme;
  scheme: "light" | "dark";
  language: string;
  zone: Zone;
  words: {
    time: string;
    unknown: string;
    /** Of an axis with many lines: what is counted, by format. */
    units: Readonly<Record<string, string>>;
    /** What is behind a line's name where there are two axes. */
    sides: Readonly<Record<"left" | "right", string>>;
  };
}

/** The longest title of an axis that is made of the names of its lines: beside the lowest chart. */
const NAMES_MAX = 20;
/** Characters that are two others wide. */
const WIDE = /[\u2e80-\uffff]/g;
const AXIS_PX = 56;
/** What a tick and its distance to the text take of an axis. */
const TICK_PX = 16;
const CHARACTER_PX = 6;

function width(text: string): number {
  return text.replace(WIDE, "xx").length;
}

/** The width of an axis beside its title, in which its values have room. */
export function axisWidth(values: readonly string[]): number {
  return Math.max(AXIS_PX, ...values.map((value) => width(value) * CHARACTER_PX + TICK_PX));
}
/** The room of the buttons above a chart. */
const BUTTONS_PX = 26;

/**
 * The title of an axis: the names of its lines, or their unit if these are too long. Durations and bytes have their
 * units at the ticks.
 */
export function axisTitle(
  lines: readonly Pick<Series, "label" | "as" | "unit">[],
  units: Look["words"]["units"],
): string {
  const names = lines.map(({ label }) => label).join(", ");
  return width(names) <= NAMES_MAX ? names : (lines[0]?.unit ?? units[lines[0]?.as ?? "count"] ?? names);
}

const ROOM: uPlot.Range.Config = { min: { soft: 0, mode: 1, pad: 0 }, max: { soft: 1, mode: 2, pad: 0.1 } };

/**
 * The ends of an axis: from zero up, with room above the highest value, also above a line that hardly changes. What is
 * zero throughout gets an axis all the same.
 */
export function rangeOf(lowest: number | null, highest: number | null): uPlot.Range.MinMax {
  return lowest === null || highest === null ? [null, null] : uPlot.rangeNum(Math.min(0, lowest), highest, ROOM);
}

/** A line as the legend shows it, as a CSS background: its colour and dashes, an area below it, or a bar. */
export function swatch(stroke: string, dashes: readonly number[], style: Series["style"]): string {
  if (style === "bars") return stroke;
  if (style === "area") return `linear-gradient(${stroke} 0 2px, ${stroke}33 2px)`;
  if (dashes.length === 0) return `linear-gradient(${stroke} 0 100%) center / 100% 2px no-repeat`;
  let end = 0;
  const stops = dashes.map((length, at) => `${at % 2 === 0 ? stroke : "transparent"} ${end}px ${(end += length)}px`);
  return `repeating-linear-gradient(90deg, ${stops.join(", ")}) left center / 100% 2px no-repeat`;
}

/** The options of uPlot, without size and events. */
export function optionsOf({ series, bands }: Shape, look: Look): Omit<uPlot.Options, "width" | "height"> {
  const { theme, scheme, language, zone, words } = look;
  const shade = scheme === "dark" ? 4 : 7;
  // Gray stands back in both schemes.
  const paint = (colour: ChartColour) => theme.colors[colour][colour === "gray" ? 6 : shade];
  const ink = scheme === "dark" ? theme.colors.dark[1] : theme.colors.gray[7];
  const line = scheme === "dark" ? theme.colors.dark[5] : theme.colors.gray[2];
  const onLeft = series.filter(({ axis }) => axis !== "right");
  const onRight = series.filter(({ axis }) => axis === "right");
  const [[left], [right]] = [onLeft, onRight];
  const lines = series.map(({ colour, style }, index) => ({
    stroke: paint(colour ?? ORDER[index % ORDER.length] ?? "blue"),
    style,
    dash: DASHES[index % DASHES.length] ?? [],
  }));
  const range: uPlot.Range.Function = (_, lowest, highest) => rangeOf(lowest, highest);
  const axis = {
    stroke: ink,
    grid: { stroke: line, width: 1 },
    ticks: { stroke: line, width: 1 },
    font: `11px ${theme.fontFamily}`,
  };
  const values = (of: Omit<Series, "values"> | undefined, lines: Shape["series"]) => ({
    size: (_: uPlot, shown: readonly string[] | null) => axisWidth(shown ?? []),
    label: axisTitle(lines, words.units),
    labelSize: 18,
    labelFont: `11px ${theme.fontFamily}`,
    incrs: steps(of?.as) as number[] | undefined,
    values: (_: uPlot, ticks: number[]) => ticks.map((tick) => onAxis(tick, of?.as, language)),
  });
  // Beside the chart stands what is pointed at, else what was measured last.
  const pointed = (self: uPlot, index: number) => self.data[index]?.[self.cursor.idx ?? self.data[0].length - 1];
  const formatted =
    (as: Series["as"], base = 0) =>
    (self: uPlot, _: unknown, index: number) => {
      const value = pointed(self, index);
      const below = base > 0 ? (pointed(self, base) ?? 0) : 0;
      return typeof value === "number" ? inFull(value - below, as, language) : words.unknown;
    };
  return {
    tzDate: (seconds) =>
      zone === "utc" ? uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC") : new Date(seconds * 1000),
    // The buttons at the upper edge stand above the right axis.
    padding: [right ? BUTTONS_PX : null, null, null, null],
    scales: { left: { range }, right: { range } },
    legend: {
      live: true,
      markers: {
        width: 0,
        fill: (_, index) => {
          const line = lines[index - 1];
          return line ? swatch(line.stroke, line.dash, line.style) : swatch(paint("gray"), [4, 4], "line");
        },
      },
    },
    series: [
      {
        label: words.time,
        value: (self) => {
          const seconds = pointed(self, 0);
          return typeof seconds === "number" ? instantShort(seconds, zone) : "—";
        },
      },
      ...series.map(({ label, as, axis: side = "left", style = "line" }, index): uPlot.Series => {
        const { stroke = "", dash } = lines[index] ?? {};
        const fills = { line: undefined, area: `${stroke}33`, bars: stroke };
        return {
          label: left && right ? `${label} ${words.sides[side]}` : label,
          scale: side === "right" ? "right" : "left",
          stroke,
          width: style === "bars" ? 0 : 2,
          dash: fills[style] ? undefined : dash && [...dash],
          spanGaps: false,
          fill: fills[style],
          paths: style === "bars" ? uPlot.paths.bars?.({ size: [0.8, 60] }) : undefined,
          points: { show: false },
          value: formatted(as, baseOf(series, index)),
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
      {
        ...axis,
        incrs: [...TIME_STEPS],
        space: TIME_SPACE_PX,
        values: (_, ticks, _axis, _space, step) => timesOnAxis(ticks, step, zone),
      },
      { ...axis, ...values(left, onLeft), scale: "left" },
      ...(right
        ? [
            {
              ...axis,
              ...values(right, onRight),
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
