import { useTranslation } from "@/i18n/useTranslation";
import * as numbers from "@/format/numbers";
import * as times from "@/format/times";
import type { Reading } from "@/live/useLive";
import { useLanguage } from "@/ui/preferences";
import { useNow } from "@/ui/measure/useNow";
import { useSentReason } from "@/ui/measure/useSentReason";

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
 * A number that was measured. Where it is incomplete, what is known in grey: a lower bound, else the last complete
 * measurement; the hint says what is missing. Otherwise a dash with the reason, never zero. `unknown` replaces the dash
 * where null has a meaning of its own ("never").
 */
export function Measured({
  value,
  as = "count",
  reason: sent,
  missing,
  atLeast,
  last,
  lastAt,
  unknown,
  about,
}: Reading & {
  as?: Format;
  unknown?: string;
  /** What it is, on hover. */
  about?: string;
}) {
  const { t } = useTranslation();
  const language = useLanguage();
  const now = useNow(lastAt !== undefined);
  const reasonOf = useSentReason();
  const reason = sent && reasonOf(sent);
  const known = atLeast ?? last;
  if ((value === null || value === undefined) && known !== undefined && unknown === undefined) {
    const shown = `${atLeast === undefined ? "" : "≥ "}${FORMATS[as](known, language)}`;
    const hint = [
      atLeast !== undefined && missing && t("unknown.at_least", { missing: missing.join(", ") }),
      last !== undefined &&
        lastAt &&
        t("unknown.last", { value: FORMATS[as](last, language), ago: times.relative(lastAt, now, language) }),
      reason,
    ]
      .filter(Boolean)
      .join(" · ");
    return <Hinted className="incomplete nowrap" label={`${shown}. ${hint}`} hint={hint} shown={shown} />;
  }
  if (value === null || value === undefined) {
    return (
      <Hinted
        className="unknown"
        label={`${unknown ?? t("unknown.label")}${reason ? `: ${reason}` : ""}`}
        hint={reason ?? unknown ?? t("unknown.reason")}
        shown={unknown ?? "—"}
      />
    );
  }
  const exact = as === "compact" ? numbers.count(value, language) : undefined;
  return (
    <span data-measured="" className="nowrap" data-hint={[exact, about].filter(Boolean).join(" · ") || undefined}>
      {FORMATS[as](value, language)}
    </span>
  );
}

function Hinted({ className, label, hint, shown }: { className: string; label: string; hint: string; shown: string }) {
  return (
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- what is missing, or why, is shown on focus
    <span className={className} tabIndex={0} role="img" aria-label={label} data-hint={hint}>
      {shown}
    </span>
  );
}
