import { LiveFeed } from "@/live/feed";

/** The feed of the rows that are shown, in any list: docs/live.md. */
export const ROWS_PATH = "/ws/lag/";
/** Rows that the server accepts at once. */
export const ROWS_MAX = 200;
/** The longest message that names rows, in bytes. */
const MESSAGE_BYTES_MAX = 60_000;
const BYTES_PER_CHAR = 3;
/** How long rows are collected before the server is sent them: a scrolled list draws several in a row. */
export const SHOW_MS = 100;

interface Row {
  section: string;
  key: string;
  /** Cells that show it. */
  cells: number;
}

/** Live numbers of the rows that are drawn now, and of no others. A row is shown while something listens to it. */
export class RowFeed extends LiveFeed {
  private readonly rows = new Map<string, Row>();
  private timer: number | undefined;
  private sent = "";

  constructor() {
    super(ROWS_PATH);
  }

  override subscribeTo(section: string, key: string, listener: () => void): () => void {
    const id = `${section}\n${key}`;
    const row = this.rows.get(id) ?? { section, key, cells: 0 };
    row.cells += 1;
    this.rows.set(id, row);
    this.changed();
    const leave = this.subscribe(listener);
    return () => {
      row.cells -= 1;
      if (row.cells === 0) this.rows.delete(id);
      this.changed();
      leave();
    };
  }

  protected override opened(): void {
    this.sent = "";
    this.show();
  }

  private changed(): void {
    this.timer ??= window.setTimeout(() => this.show(), SHOW_MS);
  }

  private show(): void {
    window.clearTimeout(this.timer);
    this.timer = undefined;
    const text = JSON.stringify({ type: "show", ...newest([...this.rows.values()]) });
    if (text !== this.sent && this.send(text)) this.sent = text;
  }
}

/** The keys of each section: the rows that were drawn last, as many as one message may name. */
function newest(rows: readonly Row[]): { subjects: string[]; groups: string[] } {
  const found: Record<string, string[]> = { subjects: [], groups: [] };
  let bytes = 0;
  for (const { section, key } of rows.slice(-ROWS_MAX).reverse()) {
    bytes += (key.length + 4) * BYTES_PER_CHAR;
    if (bytes > MESSAGE_BYTES_MAX) break;
    found[section]?.push(key);
  }
  return found as { subjects: string[]; groups: string[] };
}
