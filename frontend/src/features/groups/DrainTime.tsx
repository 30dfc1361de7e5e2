import { useTranslation } from "react-i18next";
import type { Entry } from "@/live/applyDelta";
import { measured } from "@/live/useLive";
import { Measured } from "@/ui/Measured";

/** In how long the lag is gone; "never", at these rates, is something else than not measured. */
export function DrainTime({ numbers }: { numbers: Entry | undefined }) {
  const { t } = useTranslation("groups");
  const isNever = numbers?.is_draining === false;
  const { value, reason } = measured(numbers, "drain_seconds");
  return (
    <Measured
      value={value}
      reason={isNever ? t("drain.never_why") : reason}
      as="duration"
      unknown={isNever ? t("drain.never") : undefined}
    />
  );
}
