import "@/features/subjects/placement.css";
import { useId } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { FLOWS, type Place } from "@/features/subjects/placement";

const WIDTH = 640;
const ROW = 64;
const BOX = { width: 200, height: 44 };
/** Of another line of text. */
const LINE = 16;
const END = { width: 130, x: 6 };
const MIDDLE = (WIDTH - BOX.width) / 2;

/**
 * Where messages go in and out: producers, the broker groups, consumers; a line that is not drawn through carries
 * nothing.
 */
export function PlacementPicture({
  places,
  notes = {},
}: {
  places: readonly Place[];
  /** More about broker groups, a line each. */
  notes?: Readonly<Record<string, string>>;
}) {
  const { t } = useTranslation("subjects");
  const arrow = `arrow${useId()}`;
  const more = places.some(({ brokerGroup }) => notes[brokerGroup]) ? LINE : 0;
  const row = ROW + more;
  const boxHeight = BOX.height + more;
  const height = Math.max(1, places.length) * row;
  const centre = height / 2;
  const placements = places
    .map(({ brokerGroup, standing }) => {
      const note = notes[brokerGroup];
      return `${brokerGroup}: ${t(`placement.${standing}`)}${note ? `, ${note}` : ""}`;
    })
    .join("; ");
  return (
    // A scrolled region has to be reachable by keyboard.
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <div className="placement" tabIndex={0} role="region" aria-label={t("placement.title")}>
      <svg viewBox={`0 0 ${WIDTH} ${height}`} role="img" aria-label={t("placement.picture", { placements })}>
        <defs>
          <marker id={arrow} viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
            <path d="M0 0 L8 4 L0 8 z" className="placement-arrow" />
          </marker>
        </defs>
        <End x={END.x} y={centre} text={t("placement.producers")} />
        <End x={WIDTH - END.x - END.width} y={centre} text={t("placement.consumers")} />
        {places.map(({ brokerGroup, standing }, index) => {
          const y = index * row + row / 2;
          const { isWritten, isRead } = FLOWS[standing];
          return (
            <g key={brokerGroup} data-place={brokerGroup} data-standing={standing}>
              <Line from={[END.x + END.width, centre]} to={[MIDDLE, y]} isOpen={isWritten} arrow={arrow} />
              <Line
                from={[MIDDLE + BOX.width, y]}
                to={[WIDTH - END.x - END.width, centre]}
                isOpen={isRead}
                arrow={arrow}
              />
              <rect
                x={MIDDLE}
                y={y - boxHeight / 2}
                width={BOX.width}
                height={boxHeight}
                rx={6}
                className={`placement-box placement-${standing}`}
              />
              <text x={WIDTH / 2} y={y - 3 - more / 2} textAnchor="middle" className="placement-name">
                {brokerGroup}
              </text>
              <text x={WIDTH / 2} y={y + 14 - more / 2} textAnchor="middle" className="placement-said">
                {t(`placement.${standing}`)}
              </text>
              {notes[brokerGroup] && (
                <text x={WIDTH / 2} y={y + 22} textAnchor="middle" className="placement-said" data-note={brokerGroup}>
                  {notes[brokerGroup]}
                </text>
              )}
            </g>
          );
        })}
      </svg>
    </div>
  );
}

function End({ x, y, text }: { x: number; y: number; text: string }) {
  return (
    <g>
      <rect x={x} y={y - BOX.height / 2} width={END.width} height={BOX.height} rx={22} className="placement-end" />
      <text x={x + END.width / 2} y={y + 5} textAnchor="middle" className="placement-name">
        {text}
      </text>
    </g>
  );
}

function Line({
  from: [x, y],
  to: [toX, toY],
  isOpen,
  arrow,
}: {
  from: readonly [number, number];
  to: readonly [number, number];
  isOpen: boolean;
  arrow: string;
}) {
  const half = (x + toX) / 2;
  return (
    <path
      d={`M${x} ${y} C${half} ${y} ${half} ${toY} ${toX - 2} ${toY}`}
      className={isOpen ? "placement-line" : "placement-line placement-shut"}
      markerEnd={isOpen ? `url(#${arrow})` : undefined}
    />
  );
}
