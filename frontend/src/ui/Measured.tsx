import { useTranslation } from "react-i18next";
import * as numbers from "@/format/numbers";
import * as times from "@/format/times";
import { useLanguage } from "@/ui/preferences";

const FORMATS = {
  count: numbers.count,
  compact: numbers.compact,
  rate: numbers.rate,
  bytes: numbers.bytes,
  percent: numbers.percent,
  duration: times.duration,
} as const;

export type Format = keyof typeof FORMATS;

/**
 * A number that was measured, or a dash with the reason why it could not be. Never zero for unknown.
 * `unknown` replaces the dash where null has a meaning of its own ("never").
 */
export function Measured({
  value,
  as = "count",
  reason,
  unknown,
  about,
}: {
  value: number | null | undefined;
  as?: Format;
  reason?: string | null;
  unknown?: string;
  /** What it is, on hover. */
  about?: string;
}) {
  const { t } = useTranslation();
  const language = useLanguage();
  if (value === null || value === undefined) {
    return (
      <span
        className="unknown"
        // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- its reason is shown on focus
        tabIndex={0}
        role="img"
        aria-label={`${unknown ?? t("unknown.label")}${reason ? `: ${reason}` : ""}`}
        data-hint={reason ?? unknown ?? t("unknown.reason")}
      >
        {unknown ?? "—"}
      </span>
    );
  }
  const exact = as === "compact" ? numbers.count(value, language) : undefined;
  return (
    <span data-measured="" className="nowrap" data-hint={[exact, about].filter(Boolean).join(" · ") || undefined}>
      {FORMATS[as](value, language)}
    </span>
  );
}
