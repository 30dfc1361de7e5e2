import { numberFormat } from "@/format/intl";

/** Numbers as people read them, in the viewer's language. A null never gets here: see ui/Measured. */

export function count(value: number, language: string): string {
  return numberFormat(language, { maximumFractionDigits: 0 }).format(value);
}

/** For narrow places: 12.3K, in Chinese 1.2万. */
export function compact(value: number, language: string): string {
  // British English writes 1.2m for a million, which is read as minutes here.
  const written = language.startsWith("en") ? "en" : language;
  return numberFormat(written, { notation: "compact", maximumFractionDigits: 1 }).format(value);
}

/** Messages a second: small rates keep a digit, so that 0.2 isn't shown as none. */
export function rate(value: number, language: string): string {
  const digits = value !== 0 && Math.abs(value) < 10 ? 1 : 0;
  if (value > 0 && value < 0.05) return `<${numberFormat(language, {}).format(0.1)}`;
  return numberFormat(language, { maximumFractionDigits: digits }).format(value);
}

export function percent(share: number, language: string): string {
  return numberFormat(language, { style: "percent", maximumFractionDigits: 1 }).format(share);
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"] as const;

export function bytes(value: number, language: string): string {
  let rest = value;
  let unit = 0;
  while (Math.abs(rest) >= 1024 && unit < UNITS.length - 1) {
    rest /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || rest >= 100 ? 0 : 1;
  return `${numberFormat(language, { maximumFractionDigits: digits }).format(rest)} ${UNITS[unit] ?? ""}`;
}

/** Ids and sequences past 2^53 come as text: grouped as other numbers are, without becoming one. */
export function sequence(value: string): string {
  return value.replace(/\B(?=(\d{3})+(?!\d))/g, ",");
}
