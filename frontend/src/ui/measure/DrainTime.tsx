import { useTranslation } from "@/i18n/useTranslation";
import { measured } from "@/live/useLive";
import { Measured } from "@/ui/measure/Measured";

/**
 * In how long the lag of a consumer group is gone. Where it does not decrease, the text and the hint say why; that is
 * not the same as not measured.
 */
export function DrainTime({ numbers }: { numbers: Readonly<Record<string, unknown>> | undefined }) {
  const { t } = useTranslation();
  const { not_draining: why } = numbers ?? {};
  const { value, reason } = measured(numbers, "drain_seconds");
  const isKnown = typeof why === "string";
  return (
    <Measured
      value={value}
      reason={isKnown ? t(`drain.why.${why}`) : reason}
      as="duration"
      unknown={isKnown ? t(why === "too_slow" ? "drain.never" : "drain.not_draining") : undefined}
    />
  );
}
