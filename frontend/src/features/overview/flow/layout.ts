import type { Flow, FlowPlace } from "@/features/overview/queries";

/** Height of a box without messages: its text fits. */
export const BOX_MIN = 13;
export const GAP = 3;
export const BOX_WIDTH = 5;
/** Room for the text of a box beside it. */
const TEXT_MAX = 190;
const TEXT_SHARE = 0.2;

export interface Box {
  place: FlowPlace;
  column: 0 | 1 | 2;
  x: number;
  y: number;
  height: number;
}

export interface Band {
  id: string;
  from: FlowPlace;
  to: FlowPlace;
  rate: number;
  path: string;
  width: number;
}

export interface Layout {
  boxes: readonly Box[];
  bands: readonly Band[];
  /** Of the text of each column. */
  textWidth: number;
}

/** What passes a place: the larger one of what comes and what goes, and what it says itself. */
function passing(flow: Flow): ReadonlyMap<string, number> {
  const into = new Map<string, number>();
  const from = new Map<string, number>();
  for (const { sender, receiver, rate } of flow.links) {
    from.set(sender, (from.get(sender) ?? 0) + rate);
    into.set(receiver, (into.get(receiver) ?? 0) + rate);
  }
  const places = [...flow.applications, ...flow.subjects, ...flow.groups];
  return new Map(places.map(({ id, rate }) => [id, Math.max(rate, into.get(id) ?? 0, from.get(id) ?? 0)]));
}

/** Places of the columns, and bands between them, in a picture of this size. Widths are rates on one scale. Pure. */
export function layoutFlow(flow: Flow, width: number, height: number): Layout {
  const rates = passing(flow);
  const columns = [flow.applications, flow.subjects, flow.groups] as const;
  const scale = Math.min(
    ...columns.map((places) => {
      const total = places.reduce((sum, { id }) => sum + (rates.get(id) ?? 0), 0);
      const free = height - places.length * BOX_MIN - (places.length - 1) * GAP;
      return total > 0 ? Math.max(0, free) / total : Infinity;
    }),
  );
  const perRate = Number.isFinite(scale) ? scale : 0;
  const textWidth = Math.min(TEXT_MAX, width * TEXT_SHARE);
  // The text of the first column is left of its boxes, of the others right of them.
  const xs = [textWidth + 6, (width - BOX_WIDTH) / 2, width - BOX_WIDTH - textWidth - 6] as const;
  const boxes = columns.flatMap((places, column) => {
    const heights = places.map(({ id }) => BOX_MIN + (rates.get(id) ?? 0) * perRate);
    const used = heights.reduce((sum, one) => sum + one + GAP, -GAP);
    let y = Math.max(0, (height - used) / 2);
    return places.map((place, index): Box => {
      const box = { place, column: column as Box["column"], x: xs[column] ?? 0, y, height: heights[index] ?? BOX_MIN };
      y += box.height + GAP;
      return box;
    });
  });
  return { boxes, bands: bandsOf(flow, boxes, rates, perRate), textWidth };
}

function bandsOf(flow: Flow, boxes: readonly Box[], rates: ReadonlyMap<string, number>, perRate: number): Band[] {
  const byId = new Map(boxes.map((box) => [box.place.id, box]));
  const order = new Map(boxes.map(({ place }, index) => [place.id, index]));
  const place = (id: string) => order.get(id) ?? 0;
  const links = [...flow.links].sort(
    (a, b) => place(a.sender) - place(b.sender) || place(a.receiver) - place(b.receiver),
  );
  // Where the next band of a box leaves, and arrives: those of one box are stacked, in its middle.
  const begin = ({ y, height, place: { id } }: Box) => y + (height - (rates.get(id) ?? 0) * perRate) / 2;
  const leaves = new Map(boxes.map((box) => [box.place.id, begin(box)]));
  const arrives = new Map(leaves);
  return links.flatMap(({ sender, receiver, rate }): Band[] => {
    const from = byId.get(sender);
    const to = byId.get(receiver);
    if (!from || !to) return [];
    const thick = rate * perRate;
    const y1 = (leaves.get(sender) ?? 0) + thick / 2;
    const y2 = (arrives.get(receiver) ?? 0) + thick / 2;
    leaves.set(sender, y1 + thick / 2);
    arrives.set(receiver, y2 + thick / 2);
    const [x1, x2] = [from.x + BOX_WIDTH, to.x];
    const middle = (x1 + x2) / 2;
    const path = `M${round(x1)} ${round(y1)}C${round(middle)} ${round(y1)} ${round(middle)} ${round(y2)} ${round(x2)} ${round(y2)}`;
    return [{ id: `${sender} ${receiver}`, from: from.place, to: to.place, rate, path, width: Math.max(1, thick) }];
  });
}

function round(value: number): string {
  return String(Math.round(value * 10) / 10);
}
