import { html, type Html } from "@/shared/report/html";

/** Charts of a report: lines as SVG, readable without scripts. Pure. */

export interface Line {
  label: string;
  values: readonly (number | null)[];
}

const WIDTH = 760;
const HEIGHT = 150;
const LEFT = 8;
const COLOURS = ["#3b5bdb", "#e8590c", "#0ca678", "#9c36b5"];
const DASHES = ["none", "8 4", "2 3", "10 3 2 3"];

/** The parts of a line between what could not be measured, as points of a polyline. */
export function pieces(
  at: readonly number[],
  values: readonly (number | null)[],
  x: (seconds: number) => number,
  y: (value: number) => number,
): string[] {
  const found: string[][] = [[]];
  at.forEach((seconds, index) => {
    const value = values[index];
    if (typeof value === "number") found.at(-1)?.push(`${x(seconds).toFixed(1)},${y(value).toFixed(1)}`);
    else if (found.at(-1)?.length) found.push([]);
  });
  return found.filter(({ length }) => length > 0).map((points) => points.join(" "));
}

/** What a chart is of; times are seconds since 1970. */
export interface Drawing {
  title: string;
  /** Beginning and end of the x axis, and how they are written. */
  span: { from: number; to: number; texts: readonly [string, string] };
  at: readonly number[];
  lines: readonly Line[];
  markers: readonly { at: number; label: string }[];
  /** Values before it are summaries: they have another background. */
  border: { at: number; label: string } | null;
}

/** One chart; each line has its own scale from 0 to its greatest value, which the legend names. */
export function chart({ title, span, at, lines, markers, border }: Drawing, number: (value: number) => string): Html {
  const { from: first, to: last } = span;
  const x = (seconds: number) => LEFT + ((seconds - first) / Math.max(1, last - first)) * (WIDTH - 2 * LEFT);
  const drawn = lines.map(({ label, values }, index) => {
    const most = values.reduce<number>((best, value) => Math.max(best, value ?? 0), 0);
    const y = (value: number) => HEIGHT - 4 - (value / (most || 1)) * (HEIGHT - 24);
    return {
      label,
      most,
      colour: COLOURS[index % 4] ?? "",
      dash: DASHES[index % 4] ?? "",
      at: pieces(at, values, x, y),
    };
  });
  const paths = drawn.flatMap(({ at: parts, colour, dash }) =>
    parts.map(
      (points) =>
        html`<polyline
          points="${points.includes(" ") ? points : `${points} ${points}`}"
          fill="none"
          stroke-linecap="round"
          stroke="${colour}"
          stroke-width="1.5"
          stroke-dasharray="${dash}"
        />`,
    ),
  );
  const marks = markers
    .filter((marker) => marker.at >= first && marker.at <= last)
    .map(
      (marker) =>
        html`<line
          x1="${x(marker.at).toFixed(1)}"
          x2="${x(marker.at).toFixed(1)}"
          y1="0"
          y2="${HEIGHT}"
          stroke="#888"
          stroke-dasharray="3 3"
          ><title>${marker.label}</title></line
        >`,
    );
  const edge = border ? Math.min(WIDTH, Math.max(0, x(border.at))).toFixed(1) : "0";
  const summaries = border
    ? html`<rect width="${edge}" height="${HEIGHT}" fill="#e9ecef"><title>${border.label}</title></rect>`
    : html``;
  const legend = drawn.map(
    ({ label, most, colour }) =>
      html`<span class="key" style="border-color:${colour}">${label}: 0 – ${number(most)}</span> `,
  );
  return html`<figure>
    <figcaption>${title}</figcaption>
    <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img" aria-label="${title}">
      <rect width="${WIDTH}" height="${HEIGHT}" fill="#f8f9fa" />
      ${summaries}${marks}${paths}
    </svg>
    <div class="axis"><span>${span.texts[0]}</span><span>${span.texts[1]}</span></div>
    <div>${legend}</div>
    ${border ? html`<div><span class="key" style="border-color:#ced4da">${border.label}</span></div>` : html``}
  </figure>`;
}
