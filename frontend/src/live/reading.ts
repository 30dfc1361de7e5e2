/** A number as it was measured. The optional parts are known only while some broker groups can't be asked. */
export interface Reading {
  value: number | null | undefined;
  reason?: string | null;
  /** Broker groups whose numbers are missing. */
  missing?: readonly string[] | undefined;
  /** What the others report. */
  atLeast?: number | undefined;
  /** The last complete measurement, at `lastAt`. */
  last?: number | undefined;
  lastAt?: string | undefined;
}
