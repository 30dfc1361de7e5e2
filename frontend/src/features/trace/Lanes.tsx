import "@/features/trace/trace.css";
import { useElementSize } from "@mantine/hooks";
import { useTranslation } from "@/i18n/useTranslation";
import { duration } from "@/format/times";
import type { Standing, Times } from "@/features/trace/queries";
import { laneOf } from "@/features/trace/steps";
import { useLanguage } from "@/ui/preferences";

const LANE_PX = 34;
const AXIS_PX = 22;
const NAME_PX = 150;
const NAME_PX_NARROW = 96;
const EDGE_PX = 12;
const NARROW_PX = 520;
const TICKS = 4;
/** A stretch too short to see is drawn this wide. */
const STRETCH_PX_MIN = 2;

/**
 * The groups' lanes to scale: waiting, in flight, retries, from when it was stored on. The lists below say the same in
 * words.
 */
export function Lanes({ groups, storedAt, nowMs }: Times & { groups: readonly Standing[] }) {
  const { t } = useTranslation("trace");
  const language = useLanguage();
  const { ref, width } = useElementSize<HTMLDivElement>();
  const lanes = groups.map((standing) => laneOf(standing, storedAt, nowMs));
  const instants = lanes.flatMap(({ stretches, marks }) => [
    ...stretches.flatMap(({ from, to }) => [from, to]),
    ...marks.map(({ at }) => at),
  ]);
  if (instants.length === 0 || storedAt === null) return null;
  const begin = Date.parse(storedAt);
  const span = Math.max(1, Math.max(...instants) - begin);
  const left = width < NARROW_PX ? NAME_PX_NARROW : NAME_PX;
  const room = Math.max(1, width - left - EDGE_PX);
  const x = (at: number) => left + ((at - begin) / span) * room;
  const height = lanes.length * LANE_PX + AXIS_PX;
  return (
    <div ref={ref} className="lanes">
      <div style={{ height }}>
        {width > 0 && (
          <svg width={width} height={height} role="img" aria-label={t("lanes.label")}>
            {Array.from({ length: TICKS + 1 }, (_, tick) => {
              const seconds = (span / 1000) * (tick / TICKS);
              const at = x(begin + seconds * 1000);
              return (
                <g key={tick}>
                  <line x1={at} x2={at} y1={0} y2={height - AXIS_PX} className="lane-grid" />
                  <text
                    x={at}
                    y={height - 6}
                    textAnchor={tick === 0 ? "start" : tick === TICKS ? "end" : "middle"}
                    className="lane-axis"
                  >
                    {tick === 0 ? t("step.stored") : `+${duration(seconds, language)}`}
                  </text>
                </g>
              );
            })}
            {lanes.map(({ group, stretches, marks }, at) => (
              <g key={group} transform={`translate(0 ${at * LANE_PX})`}>
                <text x={0} y={LANE_PX / 2 + 4} className="lane-name">
                  {group.length > left / 8 ? `${group.slice(0, Math.floor(left / 8) - 1)}…` : group}
                  <title>{group}</title>
                </text>
                {stretches.map(({ kind, from, to }) => (
                  <rect
                    key={`${kind} ${from}`}
                    x={x(from)}
                    width={Math.max(STRETCH_PX_MIN, x(to) - x(from))}
                    y={LANE_PX / 2 - 6}
                    height={12}
                    rx={2}
                    className={`lane-${kind}`}
                  >
                    <title>{`${t(`lanes.${kind}`)}: ${duration((to - from) / 1000, language)}`}</title>
                  </rect>
                ))}
                {marks.map(({ kind, at: when, label }) => (
                  <g key={`${kind} ${when} ${label ?? ""}`} transform={`translate(${x(when)} ${LANE_PX / 2})`}>
                    <circle r={7} className={`lane-mark lane-mark-${kind}`} />
                    <text y={3.5} textAnchor="middle" className="lane-mark-text">
                      {kind === "acked" ? "✓" : kind === "dead" ? "✕" : (label ?? "")}
                    </text>
                    <title>{t(`step.${kind}`, { attempt: label })}</title>
                  </g>
                ))}
              </g>
            ))}
          </svg>
        )}
      </div>
      <div className="lane-legend" aria-hidden>
        {(["waiting", "in_flight", "retrying"] as const).map((kind) => (
          <span key={kind}>
            <svg width={14} height={10}>
              <rect width={14} height={10} rx={2} className={`lane-${kind}`} />
            </svg>{" "}
            {t(`lanes.${kind}`)}
          </span>
        ))}
      </div>
    </div>
  );
}
