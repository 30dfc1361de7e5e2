import "uplot/dist/uPlot.min.css";
import { useComputedColorScheme, useMantineTheme } from "@mantine/core";
import { useElementSize } from "@mantine/hooks";
import { useEffect, useId, useMemo, useRef, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import uPlot from "uplot";
import { drawOverlays, type Overlays } from "@/ui/chart/overlays";
import { optionsOf, type Shape } from "@/ui/chart/options";
import { stacked } from "@/ui/chart/stack";
import type { Marker, Threshold, TimeChartProps } from "@/ui/chart/types";
import { inFull, instant } from "@/ui/chart/words";
import { useKeys } from "@/ui/chart/useKeys";
import { useLanguage, useZone } from "@/ui/preferences";

const NO_MARKERS: readonly Marker[] = [];
const NO_THRESHOLDS: readonly Threshold[] = [];

interface Zoom {
  min: number;
  max: number;
}

/**
 * TimeChart's drawing, with uPlot. What is zoomed stays zoomed while numbers come in, and when the window or the
 * colours change.
 */
export default function Drawn({
  label,
  at,
  series,
  bands = [],
  markers = NO_MARKERS,
  thresholds = NO_THRESHOLDS,
  border,
  height,
}: TimeChartProps & { height: number }) {
  const { t } = useTranslation();
  const language = useLanguage();
  const zone = useZone();
  const theme = useMantineTheme();
  const scheme = useComputedColorScheme("light");
  const hintId = useId();
  const { ref, width } = useElementSize<HTMLDivElement>();
  const host = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const zoom = useRef<Zoom | null>(null);
  const data = useMemo(
    () => [at, ...stacked(series), ...bands.flatMap(({ low, high }) => [high, low])] as uPlot.AlignedData,
    [at, series, bands],
  );
  const overlays = useMemo<Overlays>(() => ({ markers, thresholds, border }), [markers, thresholds, border]);
  const latest = useRef({ data, width, overlays });
  useEffect(() => {
    latest.current = { data, width, overlays };
  });
  const shape = JSON.stringify({
    series: series.map(({ label: name, as, unit, axis, style, colour }) => ({
      label: name,
      as,
      unit,
      axis,
      style,
      colour,
    })),
    bands: bands.map(({ label: name, colour }) => ({ label: name, colour })),
  } satisfies Shape);
  const hasRoom = width > 0;
  useEffect(() => {
    if (!host.current || !hasRoom) return undefined;
    const words = {
      time: t("chart.time"),
      unknown: t("unknown.label"),
      units: {
        count: t("chart.unit.count"),
        rate: t("chart.unit.rate"),
        bytes: t("chart.unit.bytes"),
        duration: t("chart.unit.duration"),
        percent: t("chart.unit.percent"),
      },
      sides: { left: t("chart.left"), right: t("chart.right") },
    };
    const drawn = new uPlot(
      {
        ...optionsOf(JSON.parse(shape) as Shape, { theme, scheme, language, zone, words }),
        width: latest.current.width,
        height,
        cursor: {
          drag: { x: true, y: false },
          focus: { prox: 24 },
          bind: {
            dblclick: (_, _target, seeAll) => (event) => {
              zoom.current = null;
              seeAll(event);
              return null;
            },
          },
        },
        hooks: {
          draw: [(self) => drawOverlays(self, latest.current.overlays)],
          setSelect: [
            (self) => {
              const { left, width: chosen } = self.select;
              if (chosen > 0) zoom.current = { min: self.posToVal(left, "x"), max: self.posToVal(left + chosen, "x") };
            },
          ],
        },
      },
      latest.current.data,
      host.current,
    );
    if (zoom.current) drawn.setScale("x", zoom.current);
    plot.current = drawn;
    return () => {
      drawn.destroy();
      plot.current = null;
    };
  }, [hasRoom, height, shape, scheme, theme, zone, language, t]);
  useEffect(() => {
    if (hasRoom) plot.current?.setSize({ width, height });
  }, [hasRoom, width, height]);
  useEffect(() => {
    const drawn = plot.current;
    if (!drawn) return;
    drawn.setData(data, zoom.current === null);
    if (zoom.current) drawn.setScale("x", zoom.current);
  }, [data]);
  useEffect(() => {
    if (plot.current) drawOverlays(plot.current, overlays);
  }, [overlays]);

  const [pointed, setPointed] = useState<number | null>(null);
  const onKeyDown = useKeys(at, {
    point: (index) => {
      const drawn = plot.current;
      const seconds = at[index];
      if (!drawn || seconds === undefined) return;
      drawn.setCursor({ left: drawn.valToPos(seconds, "x"), top: height / 2 });
      setPointed(index);
    },
    pointed: () => plot.current?.cursor.idx ?? null,
    shown: () => zoom.current,
    show: (chosen) => {
      zoom.current = chosen;
      const [first, last] = [at[0], at.at(-1)];
      const limits = chosen ?? (first !== undefined && last !== undefined ? { min: first, max: last } : null);
      if (limits) plot.current?.setScale("x", limits);
    },
  });
  const names = thresholds.map(({ label: name }) => name).join(", ");
  const index = pointed === null || pointed >= at.length ? at.length - 1 : pointed;
  const seconds = at[index];
  const valueText = [
    ...(seconds === undefined ? [] : [instant(seconds, zone)]),
    ...series.map(({ label: name, values, as }) => {
      const value = values[index];
      return `${name}: ${typeof value === "number" ? inFull(value, as, language) : t("unknown.label")}`;
    }),
  ].join(", ");
  return (
    <div
      ref={ref}
      className="chart"
      role="slider"
      tabIndex={0}
      aria-label={label}
      aria-describedby={hintId}
      aria-valuemin={0}
      aria-valuemax={Math.max(0, at.length - 1)}
      aria-valuenow={Math.max(0, index)}
      aria-valuetext={valueText}
      style={{ minHeight: height }}
      onKeyDown={onKeyDown}
    >
      <div ref={host} />
      <span id={hintId} className="chart-hint">
        {t("chart.zoom_hint")}
        <span className="sr-only">
          {[t("chart.keys_hint"), border?.label, thresholds.length > 0 && t("chart.thresholds", { names })]
            .filter(Boolean)
            .join(" ")}
        </span>
      </span>
    </div>
  );
}
