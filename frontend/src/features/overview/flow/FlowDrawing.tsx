import { useMemo } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { BOX_WIDTH, layoutFlow, type Box } from "@/features/overview/flow/layout";
import { colourOf, targetOf } from "@/features/overview/flow/places";
import { usePlaceText } from "@/features/overview/flow/usePlaceText";
import type { Flow, FlowPlace } from "@/features/overview/queries";
import * as numbers from "@/format/numbers";
import { LinkTo } from "@/ui/links/LinkTo";
import { useLanguage } from "@/ui/preferences";

/** Characters of a name that fit beside a box, by the width of its text. */
const PX_PER_CHARACTER = 6.2;

/** The picture is laid out for this width, and scaled to its place. */
const WIDTH = 680;

/** Applications, subjects and groups: the width of a band is a rate, the colour of a group its lag. */
export function FlowDrawing({ flow, height }: { flow: Flow; height: number }) {
  const { t } = useTranslation("overview");
  const language = useLanguage();
  const text = usePlaceText();
  const { boxes, bands, textWidth } = useMemo(() => layoutFlow(flow, WIDTH, height), [flow, height]);
  const hint = (from: FlowPlace, to: FlowPlace, rate: number) =>
    `${text.name(from)} → ${text.name(to)}: ${t("flow.rate", { rate: numbers.rate(rate, language) })}`;
  return (
    <svg viewBox={`0 0 ${WIDTH} ${height}`} role="group" aria-label={t("flow.title")} className="flow">
      <g aria-hidden>
        {bands.map(({ id, from, to, rate, path, width }) => (
          <path
            key={id}
            d={path}
            strokeWidth={width}
            stroke={`var(--mantine-color-${colourOf(to)}-5)`}
            data-band={id}
            data-hint={hint(from, to, rate)}
          />
        ))}
      </g>
      {boxes.map((box) => (
        <Place
          key={box.place.id}
          box={box}
          textWidth={textWidth}
          label={text.name(box.place)}
          detail={text.detail(box.place)}
        />
      ))}
    </svg>
  );
}

function Place({ box, textWidth, label, detail }: { box: Box; textWidth: number; label: string; detail: string }) {
  const { place, column, x, y, height } = box;
  const most = Math.max(4, Math.floor(textWidth / PX_PER_CHARACTER));
  const isLeft = column === 0;
  return (
    <LinkTo {...targetOf(place)} aria-label={`${label}: ${detail}`} data-place={place.id}>
      <rect
        x={x}
        y={y}
        width={BOX_WIDTH}
        height={height}
        rx={2}
        fill={`var(--mantine-color-${colourOf(place)}-6)`}
        data-hint={`${label}: ${detail}`}
      />
      <text
        x={isLeft ? x - 6 : x + BOX_WIDTH + 6}
        y={y + height / 2}
        textAnchor={isLeft ? "end" : "start"}
        dominantBaseline="central"
        data-hint={`${label}: ${detail}`}
      >
        {label.length > most ? `${label.slice(0, most - 1)}…` : label}
      </text>
    </LinkTo>
  );
}
