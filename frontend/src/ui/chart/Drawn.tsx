import "uplot/dist/uPlot.min.css";
import { useComputedColorScheme, useMantineTheme } from "@mantine/core";
import { useElementSize } from "@mantine/hooks";
import { useEffect, useMemo, useRef } from "react";
import { useTranslation } from "react-i18next";
import uPlot from "uplot";
import * as numbers from "@/format/numbers";
import * as times from "@/format/times";
import type { ChartColour, Series, TimeChartProps } from "@/ui/chart/TimeChart";
import type { Format } from "@/ui/Measured";
import { useLanguage, useZone } from "@/ui/preferences";

const ORDER: readonly ChartColour[] = ["blue", "orange", "teal", "grape", "red", "cyan", "lime", "gray"];

function text(value: number, as: Format | undefined, language: string): string {
  if (as === "duration") return times.duration(value, language);
  if (as === "bytes") return numbers.bytes(value, language);
  if (as === "percent") return numbers.percent(value, language);
  if (as === "rate") return numbers.rate(value, language);
  return numbers.count(value, language);
}

function onAxis(value: number, as: Format | undefined, language: string): string {
  return as === "duration" || as === "bytes" || as === "percent"
    ? text(value, as, language)
    : numbers.compact(value, language);
}

/** TimeChart's drawing, with uPlot. */
export default function Drawn({ label, at, series, bands = [], height = 220 }: TimeChartProps) {
  const { t } = useTranslation();
  const language = useLanguage();
  const zone = useZone();
  const theme = useMantineTheme();
  const scheme = useComputedColorScheme("light");
  const { ref, width } = useElementSize<HTMLDivElement>();
  const hostRef = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const shade = scheme === "dark" ? 4 : 7;
  const data = useMemo(
    () =>
      [
        at,
        ...series.map(({ values }) => values),
        ...bands.flatMap(({ low, high }) => [high, low]),
      ] as uPlot.AlignedData,
    [at, series, bands],
  );
  const latestData = useRef(data);
  useEffect(() => {
    latestData.current = data;
  });
  // What the drawing is made of but for the numbers: only when this changes is it made anew.
  const shape = JSON.stringify([
    series.map(({ label: name, as, axis, style, colour }) => [name, as, axis, style, colour]),
    bands.map(({ label: name, colour }) => [name, colour]),
  ]);
  useEffect(() => {
    const host = hostRef.current;
    if (!host || width === 0) return undefined;
    const [parsedSeries, parsedBands] = JSON.parse(shape) as [
      [string, Series["as"], Series["axis"], Series["style"], ChartColour | undefined][],
      [string, ChartColour | undefined][],
    ];
    const paint = (colour: ChartColour) => theme.colors[colour][shade];
    const ink = scheme === "dark" ? theme.colors.dark[1] : theme.colors.gray[7];
    const grid = scheme === "dark" ? theme.colors.dark[5] : theme.colors.gray[2];
    const bars = uPlot.paths.bars;
    const left = parsedSeries.find(([, , axis]) => axis !== "right");
    const right = parsedSeries.find(([, , axis]) => axis === "right");
    const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 } };
    const options: uPlot.Options = {
      width,
      height,
      tzDate: (seconds) =>
        zone === "utc" ? uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC") : new Date(seconds * 1000),
      cursor: { drag: { x: true, y: false }, focus: { prox: 24 } },
      legend: { live: true },
      scales: {
        left: { range: { min: { soft: 0, mode: 1, pad: 0 }, max: { pad: 0.1 } } },
        right: { range: { min: { soft: 0, mode: 1, pad: 0 }, max: { pad: 0.1 } } },
      },
      series: [
        {
          label: t("chart.time"),
          value: (_, seconds) => {
            if (typeof seconds !== "number") return "—";
            const iso = new Date(seconds * 1000).toISOString();
            return `${times.dateTime(iso, language, zone)} (${times.utc(iso).replace(".000", "")})`;
          },
        },
        ...parsedSeries.map(([name, as, side, style, colour], index): uPlot.Series => {
          const stroke = paint(colour ?? ORDER[index % ORDER.length] ?? "blue");
          return {
            label: name,
            scale: side === "right" ? "right" : "left",
            stroke,
            width: 2,
            spanGaps: false,
            fill: style === "area" || style === "bars" ? `${stroke}33` : undefined,
            paths: style === "bars" && bars ? bars({ size: [0.8, 60] }) : undefined,
            points: { show: false },
            value: (_, value) => (typeof value === "number" ? text(value, as, language) : t("unknown.label")),
          };
        }),
        ...parsedBands.flatMap(([name, colour]): uPlot.Series[] =>
          [`${name} ↑`, `${name} ↓`].map((edge) => ({
            label: edge,
            scale: "left",
            stroke: `${paint(colour ?? "gray")}88`,
            width: 1,
            dash: [4, 4],
            points: { show: false },
            value: (_, value) => (typeof value === "number" ? text(value, left?.[1], language) : "—"),
          })),
        ),
      ],
      bands: parsedBands.map(([, colour], index) => ({
        series: [1 + parsedSeries.length + index * 2, 2 + parsedSeries.length + index * 2] as [number, number],
        fill: `${paint(colour ?? "gray")}22`,
      })),
      axes: [
        axis,
        {
          ...axis,
          scale: "left",
          size: 64,
          values: (_, ticks) => ticks.map((tick) => onAxis(tick, left?.[1], language)),
        },
        ...(right
          ? [
              {
                ...axis,
                scale: "right",
                // eslint-disable-next-line @typescript-eslint/no-unsafe-enum-assignment -- a const enum has no value to import
                side: 1 as uPlot.Axis.Side,
                size: 64,
                grid: { show: false },
                values: (_: uPlot, ticks: number[]) => ticks.map((tick) => onAxis(tick, right[1], language)),
              },
            ]
          : []),
      ],
    };
    const drawn = new uPlot(options, latestData.current, host);
    plot.current = drawn;
    return () => {
      drawn.destroy();
      plot.current = null;
    };
  }, [width, height, shape, scheme, shade, theme, zone, language, t]);
  useEffect(() => {
    // A zoomed view stays where it is while numbers come in.
    const drawn = plot.current;
    if (!drawn) return;
    const x = drawn.scales.x;
    const [known] = drawn.data;
    const isZoomed = x?.min !== known[0] || x?.max !== known[known.length - 1];
    drawn.setData(data, !isZoomed);
  }, [data]);
  const said = series
    .map(({ label: name, values, as }) => {
      const last = values.findLast((value) => value !== null);
      return `${name}: ${typeof last === "number" ? text(last, as, language) : t("unknown.label")}`;
    })
    .join(", ");
  return (
    <div ref={ref} className="chart" role="img" aria-label={`${label}. ${said}`} style={{ minHeight: height }}>
      <div ref={hostRef} />
    </div>
  );
}
