import { useTranslation } from "@/i18n/useTranslation";
import * as numbers from "@/format/numbers";
import * as times from "@/format/times";
import type { Reading } from "@/live/useLive";
import { useLanguage } from "@/ui/preferences";
import { useNow } from "@/ui/measure/useNow";
import { useSentence } from "@/i18n/useSentence";

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
  unknown,
  about,
  ...reading
}: Reading & {
  as?: Format;
  unknown?: string;
  /** What it is, on hover. */
  about?: string;
}) {
  const { value, as = "count", atLeast, last } = reading;
  const language = useLanguage();
  if (value === null || value === undefined) {
    const known = atLeast ?? last;
    return known !== undefined && unknown === undefined ? (
      <Incomplete {...reading} as={as} known={known} />
    ) : (
      <Unknown reason={reading.reason} unknown={unknown} />
    );
  }
  const exact = as === "compact" ? numbers.count(value, language) : undefined;
  return (
    <span data-measured="" className="nowrap" data-hint={[exact, about].filter(Boolean).join(" · ") || undefined}>
      {FORMATS[as](value, language)}
    </span>
  );
}

// Each its own component: a list draws hundreds of numbers, and most need neither the time nor a reason.
function Incomplete({
  as,
  known,
  reason,
  missing,
  atLeast,
  last,
  lastAt,
}: Omit<Reading, "value"> & { as: Format; known: number }) {
  const { t } = useTranslation();
  const language = useLanguage();
  const now = useNow(lastAt !== undefined);
  const reasonOf = useSentence();
  const shown = `${atLeast === undefined ? "" : "≥ "}${FORMATS[as](known, language)}`;
  const hint = [
    atLeast !== undefined && missing && t("unknown.at_least", { missing: missing.join(", ") }),
    last !== undefined &&
      lastAt &&
      t("unknown.last", { value: FORMATS[as](last, language), ago: times.relative(lastAt, now, language) }),
    reason && reasonOf(reason),
  ]
    .filter(Boolean)
    .join(" · ");
  return <Hinted className="incomplete nowrap" label={`${shown}. ${hint}`} hint={hint} shown={shown} />;
}

function Unknown({ reason: sent, unknown }: { reason?: string | null | undefined; unknown: string | undefined }) {
  const { t } = useTranslation();
  const reasonOf = useSentence();
  const reason = sent && reasonOf(sent);
  return (
    <Hinted
      className="unknown"
      label={`${unknown ?? t("unknown.label")}${reason ? `: ${reason}` : ""}`}
      hint={reason ?? unknown ?? t("unknown.reason")}
      shown={unknown ?? "—"}
    />
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
